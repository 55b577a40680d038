"""Resources and priorities of executions, seen by models that a test holds and lets go."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models import executes

from .clients import Client, Options, Pending
from .gates import GATE, held, open_gate, queued, started, submit_next
from .lab_client import LabClient
from .models import config, model
from .real_client import RealClient
from .reference import ReferenceServer
from .rules import rule
from .scripts import eventually

OPTIONS = (["--rate-limit=execution_count"], {"rate_limit": "execution_count"})

#: Answers with the instance and the names of the requests in the call.
GATED = GATE + executes(
    """
    names = [request.request_id() for request in requests]
    pass_gate(self.directory, names)
    text = np.array([[json.dumps([self.instance, names]).encode()]], dtype=object)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]) for _ in requests]
    """,
    initialize="""
    self.instance = args["model_instance_name"]
    self.directory = args["model_repository"]
    open(self.directory + "/initialized", "w").close()
    """,
    imports="import json",
)
BATCHER = "dynamic_batching { }"


def group(resources: str = "", priority: int = 0, count: int = 1) -> str:
    """Return an instance group that needs `R 2; G 1 global`."""
    texts = []
    for resource in filter(None, (r.strip() for r in resources.split(";"))):
        name, amount, *rest = resource.split()
        texts.append(f'resources {{ name: "{name}" count: {amount} {"global: true" if rest else ""} }}')
    limiter = f"rate_limiter {{ {' '.join(texts)} priority: {priority} }}"
    return f"instance_group {{ kind: KIND_CPU count: {count} {limiter} }}"


def gated(*groups: str, scheduler: str = BATCHER) -> Any:
    return model(GATED, config("IN INT32 1", "OUT STRING 1", "max_batch_size: 8", scheduler, *groups))


MODELS = {
    "one": gated(group("R 1")),
    "other": gated(group("R 1")),
    "two": gated(group("R 2")),
    "three": gated(group("R 3")),
    "twins": gated(group("T 2", count=2)),
    "alone": gated(group("R 3"), scheduler=""),
    "sequences": gated(group("R 3"), scheduler="sequence_batching { oldest { } }"),
    "ranked": gated(group(priority=1), group(priority=3)),
    "free": gated("instance_group { kind: KIND_CPU }"),
}
NONE = {"IN": np.zeros((1, 1), dtype=np.int32)}


def named(name: str, **more: Any) -> Options:
    return Options(request_id=name, **more)


def execute(client: Client, name: str) -> Any:
    """Send a request, and return [instance, names in the call]."""
    return call_of(client.submit(name, NONE, named("sent")))


def call_of(pending: Pending) -> Any:
    answer = pending.answer.result(15)
    assert answer.error == "", answer
    return json.loads(answer.outputs["OUT"].flat[0])


def hold(stack: ExitStack, client: Client, name: str) -> Pending:
    return stack.enter_context(held(client, name, NONE, named("hold")))


@rule("5.10.2")
def test_executions_share_what_the_largest_needs(client: Client) -> None:
    with ExitStack() as stack:
        two, one = hold(stack, client, "two"), hold(stack, client, "one")  # 2 + 1 of 3
        begun = len(started(client, "other"))
        waiting = submit_next(client, "other", NONE, named("waits"))
        eventually(lambda: queued(client, "other") == 1)
        assert len(started(client, "other")) == begun
        open_gate(client, "one", "hold")
        call_of(one)
        assert call_of(waiting)[1] == ["waits"]
        assert not two.answer.done()


@rule("5.10.2", "5.5.3")
def test_the_batch_grows_while_it_waits_for_resources(client: Client) -> None:
    with held(client, "three", NONE, named("hold")):
        pending = [submit_next(client, "one", NONE, named(str(number))) for number in range(5)]
        eventually(lambda: queued(client, "one") == 5)
    assert [call_of(p)[1] for p in pending] == [["0", "1", "2", "3", "4"]] * 5


@rule("5.10.2", "5.5.1")
def test_without_a_batcher_each_execution_takes_its_resources(client: Client) -> None:
    with held(client, "three", NONE, named("hold")):
        pending = [submit_next(client, "alone", NONE, named(str(number))) for number in range(3)]
        eventually(lambda: queued(client, "alone") == 3)
    assert [call_of(p)[1] for p in pending] == [["0"], ["1"], ["2"]]


@rule("5.10.2", "5.6.8")
def test_sequences_wait_as_well(client: Client) -> None:
    with held(client, "three", NONE, named("hold")):
        pending = [submit_next(client, "sequences", NONE, named(str(n), correlation_id=n, flags=3)) for n in (1, 2)]
        eventually(lambda: queued(client, "sequences") == 2)
        assert not any(p.answer.done() for p in pending)
    assert [call_of(p)[0] for p in pending] == ["sequences_0_0"] * 2


@rule("5.10.2")
def test_instances_of_one_model_share_too(client: Client) -> None:
    # both need all there is: the second waits though it is idle
    with held(client, "twins", NONE, named("hold")):
        waiting = submit_next(client, "twins", NONE, named("waits"))
        eventually(lambda: queued(client, "twins") == 1)
        assert not waiting.answer.done()
    assert call_of(waiting)[1] == ["waits"]


@rule("5.10.2")
def test_the_one_that_executed_less_goes_first_and_others_wait_behind_it(client: Client) -> None:
    for _ in range(30):
        execute(client, "three")
    for _ in range(60):
        execute(client, "other")
    with held(client, "one", NONE, named("hold")):
        big = submit_next(client, "three", NONE, named("big"))
        eventually(lambda: queued(client, "three") == 1)
        small = submit_next(client, "other", NONE, named("small"))  # would fit
        eventually(lambda: queued(client, "other") == 1)
        assert not small.answer.done()
        for _ in range(5):
            execute(client, "free")  # needs nothing, and has executed less often than any of them
        assert not small.answer.done()
    call_of(big)
    call_of(small)
    for _ in range(60):
        execute(client, "three")
    with held(client, "one", NONE, named("hold")):
        big = submit_next(client, "three", NONE, named("big"))
        eventually(lambda: queued(client, "three") == 1)
        call_of(submit_next(client, "other", NONE, named("small")))
        assert not big.answer.done()
    call_of(big)


@rule("5.10.2")
def test_priority_three_executes_a_third_as_often(client: Client) -> None:
    instances = [execute(client, "ranked")[0] for _ in range(40)]
    assert set(instances) == {"ranked_0_0", "ranked_1_0"}
    assert 6 <= instances.count("ranked_1_0") <= 15  # 9 to 11, but Triton loses count when it is disturbed


@rule("5.10.1")
def test_an_idle_instance_takes_the_next_batch(client: Client) -> None:
    with held(client, "ranked", NONE, named("hold")):
        assert len({execute(client, "ranked")[0] for _ in range(3)}) == 1


@rule("5.10.2")
def test_a_resource_is_global_or_not(side: Client) -> None:
    assert side.placed("local", gated(group("L 1"))) is None
    for name, resources, resource in (("shared", "L 1 global", "L"), ("both", "B 1; B 1 global", "B")):
        failure = side.placed(name, gated(group(resources)))
        assert failure is not None
        assert failure.text == (
            f"load failed for model '{name}': version 1 is at UNAVAILABLE state: Invalid argument: Resource "
            f'"{resource}" is present as both global and device-specific resource in the model configuration.;\n'
        )
        side.unload(name)
    side.unload("local")


@pytest.fixture(params=["real", "lab"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Start a server with amounts of its own: 2 of LIM, 3 of dev on device 0, and nothing else."""
    if request.param == "real":
        start: Callable[..., ReferenceServer] = request.getfixturevalue("reference_server")
        amounts = ["--rate-limit-resource=LIM:2", "--rate-limit-resource=dev:3:0"]
        found: Client = RealClient(start(tmp_path, [*OPTIONS[0], *amounts]))
    else:
        found = LabClient(tmp_path, rate_limit="execution_count", rate_limit_resource={"LIM": 2, "dev": {0: 3}})
    yield found
    found.close()  # type: ignore[attr-defined]


@rule("5.10.2")
def test_what_is_not_there_fails_the_load(fresh: Client) -> None:
    cases = {
        "lim": ("LIM 3", "LIM", 2, 3),
        "device": ("dev 4", "dev", 3, 4),
        "case": ("lim 1", "lim", 0, 1),
        "unsaid": ("N 1", "N", 0, 1),
        "enough": ("LIM 2; dev 3", "", 0, 0),
        "nothing": ("", "", 0, 0),
    }
    failures = fresh.load_all({name: gated(group(resources)) for name, (resources, *_) in cases.items()})
    for name, (_, resource, limit, wanted) in cases.items():
        failure = failures[name]
        assert (fresh.repository / name / "initialized").exists()
        if not resource:
            assert failure is None
            assert execute(fresh, name)[1] == ["sent"]
            continue
        assert failure is not None
        assert failure.text == (
            f"load failed for model '{name}': version 1 is at UNAVAILABLE state: Invalid argument: Resource count for "
            f'"{resource}" is limited to {limit} which will prevent scheduling of one or more model instances, the '
            f"minimum required count is {wanted};\n"
        )


@pytest.mark.parametrize("program", ["real", "lab"])
@rule("5.10.2")
def test_a_server_without_a_limit_ignores_them(request: pytest.FixtureRequest, program: str) -> None:
    unlimited: Client = request.getfixturevalue(program)
    assert set(unlimited.load_all({"here": gated(group("R 2")), "there": gated(group("R 2"))}).values()) == {None}
    with held(unlimited, "here", NONE, named("hold")):
        assert execute(unlimited, "there")[1] == ["sent"]
    for name in ("here", "there"):
        unlimited.unload(name)
