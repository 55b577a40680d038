"""Sentences that explain what everything waits for."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from tests.models import answers, executes, streams
from tests.server.observe.test_watchdog import World
from tests.serving import DECOUPLED, SCRIPTED_CONFIG, Lab, Script, config, eventually
from tritonlab.core.observe.failure_capsule import FailureBook
from tritonlab.core.status import InternalError, ModelLoadError, TritonError
from tritonlab.server.observe.why import Reason, ServerSnapshot, Why, why

WAITING = """
flag = self.args["model_repository"] + "/go"
while not os.path.exists(flag): time.sleep(0.005)
return [answer()]
"""


@contextmanager
def held(script: Script) -> Iterator[Any]:
    """Send a request that executes until the block ends."""
    flag = script.model.directory / "go"
    responses = script.infer(WAITING, request_id="stuck")
    try:
        # the stub has begun, not only got the request
        eventually(lambda: any("in execute" in stack for stack in script.model.stacks().values()))
        yield responses
    finally:
        flag.touch()
        list(responses)
        flag.unlink()


def found(script: Script) -> list[dict[str, Any]]:
    return [held.to_dict() for held in script.model.server.core.requests() if held.version.name == script.model.name]


def reasons(why: Why, kind: str) -> list[Reason]:
    return [reason for reason in why.reasons if reason.kind == kind]


def test_nothing_waits(lab: Lab, script: Script) -> None:
    assert (
        lab.server.why("script").text() == "Nothing waits in model 'script': no request is in flight, no load goes on."
    )
    assert lab.server.why("script").to_dict() == {"waits": False, "reasons": []}
    assert "Nothing waits: 1 model READY" in lab.server.why().text()


def test_a_request_stuck_in_execute(script: Script) -> None:
    with held(script):
        why = script.model.why()
        (reason,) = why.reasons
        assert reason.text.startswith("request ") and "(id 'stuck') of model 'script' waits for" in reason.text
        assert f"script_0_0 (process {script.pid}) executes it." in reason.text
        ((name, stack),) = reason.stacks
        assert name == f"script_0_0 (process {script.pid})" and "in execute" in stack
        facts = json.loads(json.dumps(why.to_dict()))
        assert facts["waits"] and facts["reasons"][0]["kind"] == "requests"
        queued = script.infer("return [answer()]")
        (reason,) = script.model.why().reasons
        assert any("it is in the queue" in line for line in reason.lines)
        assert any(line.startswith("  script_0_0 of model 'script' executes request") for line in reason.lines)
    list(queued)


def test_a_request_behind_a_delay(lab: Lab) -> None:
    batching = "max_batch_size: 8\ndynamic_batching { preferred_batch_size: 2 max_queue_delay_microseconds: 60000000 }"
    model = lab.load("delayed", executes("return [1] * len(requests)"), config("X FP32 -1") + batching)
    first = model.infer(inputs={"X": np.zeros((1, 1), np.float32)}, raise_on_error=False)
    eventually(lambda: reasons(model.why(), "requests"))
    (reason,) = reasons(model.why(), "requests")
    assert "it is in the queue" in reason.text
    (line,) = [line for line in reason.lines if "The batcher waits for more requests" in line]
    assert "s more, or until they are 2: max_queue_delay_microseconds is 60000000." in line
    second = model.infer(inputs={"X": np.zeros((1, 1), np.float32)}, raise_on_error=False)
    assert next(first).error is not None and next(second).error is not None


def test_models_that_wait_for_one_another() -> None:
    world = World(a=1, b=1)
    world.request("a_0_0")
    world.request("b_0_0", caller="a_0_0")
    world.request("a", caller="b_0_0")
    for version in world.versions.values():
        version.identifier, version.config, version.serves = version.name, config_stub(), True
        for instance in version.instances:
            instance.state = ready_state()
    snapshot = ServerSnapshot(
        [], list(world.versions.values()), [], world.survey(), world.calls, FailureBook(1), world.clock.now()
    )  # type: ignore[arg-type]
    text = why(snapshot).text()
    assert "a_0_0 has called model 'b': request 2, with b_0_0" in text
    assert "b_0_0 has called model 'a': request 3, in the queue" in text
    assert "They may wait for one another: a -> b -> a." in text


def test_a_pause_in_the_debugger_is_named() -> None:
    world = World(a=1)
    session = SimpleNamespace(live=True, place='File "model.py", line 7', attended=False)
    world.instance("a_0_0").debugged.append(cast(Any, session))
    world.request("a_0_0")
    world.versions["a"].identifier, world.versions["a"].config, world.versions["a"].serves = "a", config_stub(), True
    world.instance("a_0_0").state = ready_state()
    snapshot = ServerSnapshot(
        [], [cast(Any, world.versions["a"])], [], world.survey(), [], FailureBook(1), world.clock.now()
    )
    assert 'a_0_0 (process 100) is paused in the debugger at File "model.py", line 7.' in why(snapshot).text()


def config_stub() -> Any:
    from tritonlab.core.config.model_config import ModelConfig

    return ModelConfig()


def ready_state() -> Any:
    from tritonlab.engine.life.instance_state import InstanceState

    return InstanceState.READY


def test_a_bls_call_that_was_refused_because_it_would_wait_for_itself(lab: Lab) -> None:
    source = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        answer = pb_utils.InferenceRequest(model_name="itself", requested_output_names=["Y"], inputs=[]).exec()
        raise pb_utils.TritonModelException(answer.error().message())
"""
    model = lab.load("itself", source, config("", "Y FP32 1"))
    with pytest.raises(TritonError):
        model()
    (reason,) = reasons(model.why(), "failure")
    assert "has failed 1 time, the last time with" in reason.text
    assert "The request would wait for itself: itself -> itself" in reason.text
    assert reason.where is not None and reason.where.endswith("line 6")


#: Calls `aa` once the file is there.
CALLS = """
import os, time
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        while not os.path.exists({!r}):
            time.sleep(0.005)
        found = pb_utils.InferenceRequest(model_name="aa", requested_output_names=["Y"], inputs=[]).exec()
        return [pb_utils.InferenceResponse(found.output_tensors())]
"""


def test_models_that_the_rate_limiter_makes_wait_for_one_another(tmp_path: Path) -> None:
    """The callee needs no resource, but has no turn before a model whose resource its caller holds."""
    lab = Lab(tmp_path, rate_limit="execution_count")
    plain = config("", "Y FP32 1")
    needs = plain.replace("count: 1", 'count: 1 rate_limiter { resources { name: "R" count: 1 } }')
    sent, calls = [], tmp_path / "calls"
    try:
        lab.load("aa", executes("return [None]"), plain)
        models = [lab.load(name, CALLS.format(str(calls)), needs) for name in ("bb", "cc")]
        list(lab.server.model("aa").infer(raise_on_error=False))  # so that its next turn comes after the others' first
        sent.append(models[0].infer(raise_on_error=False))
        eventually(lambda: "bb_0_0 (process" in models[0].why().text())
        sent.append(models[1].infer(raise_on_error=False))
        eventually(lambda: "cc_0_0 waits for resource 'R'" in models[1].why().text())
        calls.touch()
        eventually(lambda: "They may wait for one another: bb -> aa -> bb." in models[0].why().text())
        text = models[0].why().text()
        behind = "its turn, behind cc_0_0, which waits for resource 'R'"
        assert f"aa_0_0 waits for {behind}: bb_0_0 executes with it (rate limiter)." in text
        assert "cc_0_0 waits for resource 'R': bb_0_0 executes with it (rate limiter)." in models[1].why().text()
    finally:
        lab.server.stop(0)
    assert all(next(each).error is not None for each in sent)


def test_an_answer_that_waits_for_an_earlier_one(lab: Lab) -> None:
    flag = lab.repository / "first"
    batching = ("max_batch_size: 1", "dynamic_batching { preserve_ordering: true }")
    waits = f"while x[0, 0] and not os.path.exists({str(flag)!r}): time.sleep(0.005)"
    source = answers("x", reads="X", writes="Y", first=waits, imports="import os, time")
    model = lab.load("ordered", source, config("X FP32 1", "Y FP32 1", *batching, count=2))
    first, second = (model.infer(inputs={"X": np.full((1, 1), value, np.float32)}) for value in (1, 0))
    serials = [each.request.serial for each in (first, second)]
    waits = f"  request {serials[1]} has an answer, which waits for that of request {serials[0]} (preserve_ordering)."
    eventually(lambda: waits in model.why().text())
    flag.touch()
    assert next(second).error is None and model.why().reasons == []


PIPELINE = """
platform: "ensemble"
input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "Z" data_type: TYPE_FP32 dims: [ 1 ] }
ensemble_scheduling { max_inflight_requests: 1
    step { model_name: "flows" model_version: -1
        input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } }
    step { model_name: "slow" model_version: -1
        input_map { key: "Y" value: "Y" } output_map { key: "Z" value: "Z" } } }
"""


def test_a_step_with_as_many_requests_as_it_may_have(lab: Lab) -> None:
    flag = lab.repository / "slow.go"
    waits = f"while not os.path.exists({str(flag)!r}): time.sleep(0.005)"
    lab.write("flows", streams("x", "range(3)", reads="X", writes="Y"), config("X FP32 1", "Y FP32 1") + DECOUPLED)
    slow = answers("x", reads="Y", writes="Z", first=waits, imports="import os, time")
    lab.write("slow", slow, config("Y FP32 1", "Z FP32 1"))
    (lab.repository / "pipeline" / "1").mkdir(parents=True)
    (lab.repository / "pipeline" / "config.pbtxt").write_text(PIPELINE)
    model = lab.server.load("pipeline")
    responses = model.infer(inputs={"X": np.ones(1, np.float32)})
    line = "  2 more of step 1, model 'slow', wait: max_inflight_requests allows no more at a time."
    eventually(lambda: line in model.why().text())
    flag.touch()
    assert len(list(responses)) == 3 and model.why().reasons == []
    lab.server.unload("pipeline")


def test_a_sequence_that_waits_for_a_slot(lab: Lab) -> None:
    batching = "max_batch_size: 1\nsequence_batching { max_sequence_idle_microseconds: 60000000 }"
    model = lab.load("slots", executes("return [1] * len(requests)"), config("X FP32 -1") + batching)
    x = np.zeros((1, 1), np.float32)
    list(model.infer(inputs={"X": x}, correlation_id=5, flags=1, raise_on_error=False))
    waiting = model.infer(inputs={"X": x}, correlation_id="late", flags=3, raise_on_error=False)
    eventually(lambda: any("sequence 'late'" in reason.text for reason in reasons(model.why(), "sequences")))
    (reason,) = reasons(model.why(), "sequences")
    assert "for a slot: all 1 are taken." in reason.text
    assert "or sends nothing for 60 s (max_sequence_idle_microseconds)" in reason.text
    (line,) = reason.lines
    assert line.startswith("  Slot 0 of slots_0_0: sequence 5 waits for its client's next request, and ends in ")
    list(model.infer(inputs={"X": x}, correlation_id=5, flags=2, raise_on_error=False))
    assert next(waiting).error is not None


def test_a_stream_without_its_final_flag(lab: Lab) -> None:
    script = lab.script("open", SCRIPTED_CONFIG + DECOUPLED)
    stream = script.infer("self.sender = request.get_response_sender()\nself.sender.send(answer())")
    next(stream)
    eventually(lambda: found(script)[0]["state"] == "open")
    (reason,) = reasons(script.model.why(), "requests")
    assert "has returned, and its response sender has not sent the final flag." in reason.text
    (head,) = [line for line in reason.all_lines() if "(process " in line and line.startswith("  -- ")]
    assert head == f"  -- open_0_0 (process {script.model.instances()[0]['pid']}):"
    done = "self.sender.send(flags=1); request.get_response_sender().send(flags=1)"
    list(script.infer(done))
    list(stream)


def test_an_ensemble_that_waits_for_a_step(lab: Lab, script: Script) -> None:
    steps = """
platform: "ensemble"
input { name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
ensemble_scheduling { step { model_name: "script" model_version: -1
    input_map { key: "CODE" value: "CODE" } output_map { key: "OUT" value: "OUT" } } }
"""
    (lab.repository / "whole" / "1").mkdir(parents=True)
    (lab.repository / "whole" / "config.pbtxt").write_text(steps)
    model = lab.server.load("whole")
    with held(script):
        code = np.array([b"return [answer(OUT=np.float32([1]))]"], dtype=object)
        responses = model.infer(inputs={"CODE": code})
        eventually(lambda: reasons(model.why(), "requests"))
        (reason,) = reasons(model.why(), "requests")
        assert "of model 'whole' waits for" in reason.text and "its steps are not answered" in reason.text
        assert any("Ensemble 'whole' waits for model 'script': request" in line for line in reason.lines)
        assert any("in execute" in stack for _, stack in reason.stacks)
    assert next(responses).outputs["OUT"].numpy().tolist() == [1]
    lab.server.unload("whole")


class Scene(NamedTuple):
    """One thing that a request or a load waits for. `sent`: the requests, with an input X of one value; a model sleeps
    in `execute` for one of 1 until its flag is there. `line` is a regular expression."""

    config: str
    sent: tuple[dict[str, Any], ...]
    line: str
    count: int = 1


DELAY = "max_queue_delay_microseconds: 60000000"
#: Answers each request on a thread of its own.
THREADED = """
import os, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request, request.get_response_sender())).start()
    def answer(self, request, sender):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        {waits}
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]), 1)
"""
#: Every other thing that is waited for has a test of its own above: other models, resources, steps, slots, debuggers.
SCENES = {
    "execute": Scene("max_batch_size: 1", ({"x": 1},), r"_0_0 \(process \d+\) executes it\."),
    "cancelled": Scene("max_batch_size: 1", ({"x": 1, "cancelled": True},), r" executes it, and it is cancelled\."),
    "queue": Scene("max_batch_size: 1", ({"x": 1}, {"x": 0}), r": it is in the queue\."),
    "delay": Scene(
        f"max_batch_size: 8 dynamic_batching {{ preferred_batch_size: 4 {DELAY} }}",
        ({"x": 0},),
        r"for [\d.]+ s more, or until they are 4: max_queue_delay_microseconds is 60000000\.",
    ),
    "order": Scene(
        "max_batch_size: 1 dynamic_batching { preserve_ordering: true }",
        ({"x": 1}, {"x": 0}),
        r"request \d+ has an answer, which waits for that of request \d+ \(preserve_ordering\)\.",
        count=2,
    ),
    "order of the oldest strategy": Scene(
        "max_batch_size: 1 sequence_batching { oldest { max_candidate_sequences: 4 preserve_ordering: true } } "
        "model_transaction_policy { decoupled: true }",
        ({"x": 1, "correlation_id": 1, "flags": 3}, {"x": 0, "correlation_id": 2, "flags": 3}),
        r"request \d+ has an answer, which waits for that of request \d+ \(preserve_ordering\)\.",
    ),
    "delay of the oldest strategy": Scene(
        "max_batch_size: 8 sequence_batching "
        f"{{ oldest {{ max_candidate_sequences: 8 preferred_batch_size: 4 {DELAY} }} }}",
        ({"x": 0, "correlation_id": 1, "flags": 3},),
        r"for [\d.]+ s more, or until they are 4: max_queue_delay_microseconds is 60000000\.",
    ),
    "utilization of the direct strategy": Scene(
        f"max_batch_size: 4 sequence_batching {{ direct {{ minimum_slot_utilization: 0.5 {DELAY} }} }}",
        ({"x": 0, "correlation_id": 1, "flags": 3},),
        r"or until 2 slots have a request: max_queue_delay_microseconds is 60000000, minimum_slot_utilization 0\.5\.",
    ),
    "slot": Scene(
        "max_batch_size: 1 sequence_batching { max_sequence_idle_microseconds: 60000000 }",
        ({"x": 1, "correlation_id": 1, "flags": 1}, {"x": 0, "correlation_id": 2, "flags": 3}),
        r"sequence 2 of model '\w+' has waited for [\d.]+ s for a slot: all 1 are taken\.",
    ),
    "request before in the sequence": Scene(
        "max_batch_size: 1 sequence_batching { }",
        ({"x": 1, "correlation_id": 1, "flags": 1}, {"x": 0, "correlation_id": 1, "flags": 2}),
        r"Slot 0 of \w+: sequence 1 executes\.",
    ),
    "warmup": Scene(
        'model_warmup { name: "first" batch_size: 1 inputs { key: "X" value { data_type: TYPE_FP32 dims: 1 '
        'input_data_file: "one" } } } max_batch_size: 1',
        (),
        r"  \w+_0_0 executes its warmup sample 'first'\.",
    ),
}


@pytest.mark.parametrize("name", SCENES)
def test_one_line_names_what_is_waited_for(lab: Lab, name: str) -> None:
    scene, model = SCENES[name], name.replace(" ", "_")
    flag = lab.repository / f"{model}.go"
    waits = f"while x.flat[0] and not os.path.exists({str(flag)!r}): time.sleep(0.005)"
    source = answers("x", reads="X", writes="Y", first=waits, imports="import os, time")
    if "decoupled" in scene.config:
        source = THREADED.format(waits=waits)
    lab.write(model, source, config("X FP32 1", "Y FP32 1", scene.config, count=scene.count))
    (lab.repository / model / "warmup").mkdir()
    (lab.repository / model / "warmup" / "one").write_bytes(np.ones(1, np.float32).tobytes())
    loading = threading.Thread(target=lab.server.load, args=(model,))
    loading.start()
    sent = []
    try:
        if scene.sent:
            loading.join()
        for fields in scene.sent:
            inputs = {"X": np.full((1, 1), fields["x"], np.float32)}
            more = {key: value for key, value in fields.items() if key not in ("x", "cancelled")}
            request = lab.server.model(model).create_request(inputs=inputs, **more)
            sent.append(lab.server.model(model).infer(request, raise_on_error=False))
            if "cancelled" in fields:
                eventually(lambda: "executes it" in lab.server.why(model).text())
                request.cancel()
        eventually(lambda: re.search(scene.line, lab.server.why(model).text()))
        assert len(re.findall(scene.line, lab.server.why(model).text())) == 1
    finally:
        flag.touch()
        loading.join()
        if "60000000" in scene.config:
            lab.server.unload(model, timeout=0)
        for responses in sent:
            list(responses)
        lab.server.unload(model)


def test_a_model_that_loads(lab: Lab) -> None:
    flag = lab.repository / "loads.go"
    source = f"""
import os, time
class TritonPythonModel:
    def initialize(self, args):
        while not os.path.exists({str(flag)!r}): time.sleep(0.005)
    def execute(self, requests): return []
"""
    lab.write("loads", source, config())
    loading = threading.Thread(target=lab.server.load, args=("loads",))
    loading.start()
    try:
        eventually(
            lambda: any("in initialize" in stack for r in lab.server.why("loads").reasons for _, stack in r.stacks)
        )
        (reason,) = reasons(lab.server.why("loads"), "loading")
        assert reason.text.startswith("model 'loads' version 1 has been loading for ")
    finally:
        flag.touch()
        loading.join()
    assert lab.server.why("loads").reasons == []


EXECUTE = "class TritonPythonModel:\n    def execute(self, requests): return []\n"
NO_DIMS = 'backend: "python" input { name: "X" data_type: TYPE_FP32 }'
UNKNOWN = 'backend: "python"\nmax_batch_sise: 8'


@pytest.mark.parametrize(
    ("name", "source", "text", "message", "where", "fix"),
    [
        ("colon", "class M\n    pass", config(), "SyntaxError: expected ':'", "model.py\", line 1", None),
        ("absent", "import nowhere_at_all", config(), "No module named", "line 1", "install nowhere_at_all in"),
        ("dims", EXECUTE, NO_DIMS, "must specify 'dims' for dims", "input 'X'", "dims: [ -1 ]"),
        ("field", EXECUTE, UNKNOWN, "no field named \"max_batch_sise\"", "config.pbtxt\", line 2", "max_batch_size?"),
        ("named", EXECUTE, 'name: "other"', "must equal model name", None, "call the directory 'other'"),
        ("raises", EXECUTE + "    def initialize(self, args): 1 / 0\n", config(), "division by zero", "line 3", None),
    ],
)  # fmt: skip
def test_a_load_that_failed(
    lab: Lab, name: str, source: str, text: str, message: str, where: str | None, fix: str | None
) -> None:
    lab.write(name, source, text)
    with pytest.raises(ModelLoadError):
        lab.server.load(name)
    (reason,) = reasons(lab.server.why(name), "load")
    assert reason.text.startswith(f"the last load of model '{name}' failed: ") and message in reason.text
    assert reason.where is None if where is None else where in str(reason.where)
    assert fix is None or fix in str(reason.fix)
    printed = lab.server.why(name).text()
    assert ("  Fix: " in printed) == (reason.fix is not None)
    lab.load(name, EXECUTE, config())
    assert reasons(lab.server.why(name), "load") == []


def test_a_reload_that_failed_leaves_the_version_from_before(lab: Lab) -> None:
    lab.load("kept", EXECUTE, config())
    lab.write("kept", "oops(", config())
    with pytest.raises(ModelLoadError):
        lab.server.load("kept")
    (reason,) = lab.server.why("kept").reasons
    assert reason.text.endswith(" The version from before serves on.")
    lab.server.unload("kept")
    assert lab.server.why("kept").reasons == []


def test_an_instance_that_does_not_run(lab: Lab) -> None:
    model, hold = lab.held("gone", "os.kill(os.getpid(), signal.SIGKILL)")
    assert next(model.infer(raise_on_error=False)).error is not None
    eventually(lambda: "SIGKILL" in model.why().text())
    (reason,) = reasons(model.why(), "instance")
    assert reason.text.startswith("instance gone_0 of model 'gone' is ")
    hold.unlink()
    eventually(model.ready)


def test_a_long_text_is_cut_and_names_are_cited(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Why([Reason("requests", "m", "waits.", tuple(f"  line {n}" for n in range(90)))], "")
    assert len(repr(long).split("\n")) == 40 and len(long.text().split("\n")) == 91
    reason = Reason("load", "m", "failed.", where="Cell In[3], line 2", fix="return a list")
    assert Why([reason], "").text() == "failed.\n  At Cell In[3], line 2.\n  Fix: return a list."
    assert reason.to_dict()["where"] == "Cell In[3], line 2"
    assert isinstance(InternalError("x"), TritonError)


def test_a_load_is_found_by_the_identifier_too() -> None:
    loading = SimpleNamespace(stacks=lambda seconds: {})
    version = SimpleNamespace(
        name="m", identifier="/a::m", version=1, load_started=0, warming=[], loading=loading
    )
    snapshot = ServerSnapshot([], [], loading=cast(Any, [version]), held=[], calls=[], failures=cast(Any, None), now=0)
    for name in ("", "m", "/a::m"):
        assert len(reasons(why(snapshot, name), "loading")) == 1
    assert reasons(why(snapshot, "other"), "loading") == []
