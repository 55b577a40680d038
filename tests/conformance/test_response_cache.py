"""The response cache, seen by a model that answers with the number of its call. Where 2.51 answers wrongly, ours
does not, and the test has both (rules 5.9.2, 5.9.3)."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.models import executes

from .clients import Answer, Client, Options
from .gates import GATE, held
from .models import CPU, config, model
from .rules import rule
from .scripts import eventually

OPTIONS = (["--cache-config=local,size=1048576"], {"cache_config": "local,size=1048576"})

#: Answers with ten times IN and the number of the call; 13 raises, 14 is a TritonError, 16 is answered through its
#: sender. A request whose id begins with `hold` keeps the instance until the test lets it go.
COUNTING = GATE + executes(
    """
    self.calls += 1
    pass_gate(self.directory, [request.request_id() for request in requests])
    responses = []
    for request in requests:
        array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        if array.flat[0] == 13:
            raise ValueError("thirteen")
        if array.flat[0] == 14:
            responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("fourteen")))
            continue
        number = pb_utils.Tensor("N", np.full(array.shape[:1] + (1,), self.calls, np.int32))
        response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array * 10), number])
        if array.flat[0] == 16:
            sender = request.get_response_sender()
            sender.send(response)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        responses.append(response if array.flat[0] != 16 else None)
    return responses
    """,
    initialize="""
    self.calls = 0
    self.directory = args["model_repository"]
    """,
)
#: Answers with the number of the call, whatever its inputs.
CALLS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    calls = 0

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        self.calls += 1
        number = np.full((len(request.inputs()[0].as_numpy()), 1), self.calls, np.int32)
        text = np.array([[b"said"]] * len(number), object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("N", number), pb_utils.Tensor("S", text)])
"""
ENABLED = "response_cache { enable: true }"
WARM = 'inputs { key: "IN" value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } }'
ENSEMBLE = """
platform: "ensemble" max_batch_size: 4
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "N" data_type: TYPE_INT32 dims: [ 1 ] }
ensemble_scheduling { step { model_name: "off" model_version: -1 input_map { key: "IN" value: "IN" }
                             output_map { key: "N" value: "N" } } }
response_cache { enable: true }
"""


def counting(*rest: str, inputs: str = "IN INT32 -1") -> Any:
    return model(COUNTING, config(inputs, "OUT INT32 -1;N INT32 1", "max_batch_size: 4", *rest, CPU))


def pair(*rest: str) -> Any:
    outputs = "N INT32 1;S STRING 1"
    return model(CALLS, config("A FP32 1;T STRING 1 optional", outputs, "max_batch_size: 4", ENABLED, *rest, CPU))


MODELS = {
    "m": counting(ENABLED),
    "other": counting(ENABLED),
    "batcher": counting(ENABLED, "dynamic_batching { max_queue_delay_microseconds: 5000000 }"),
    "full": counting(ENABLED, "dynamic_batching { default_queue_policy { max_queue_size: 1 } }"),
    "ordered": counting(ENABLED, "dynamic_batching { preserve_ordering: true }"),
    "off": counting(),
    "pair": pair(),
    "ranked": pair("dynamic_batching { priority_levels: 2 default_priority_level: 1 }"),
    "said_off": counting("response_cache { enable: false }"),
    "warmed": counting(ENABLED, f'model_warmup {{ name: "w" batch_size: 1 {WARM} }}'),
}


def infer(client: Client, name: str, *rows: list[int], **options: Any) -> Answer:
    return client.infer(name, {"IN": np.array(rows, np.int32)}, **options)


def call(answer: Answer) -> int:
    assert answer.error == "", answer
    return int(answer.outputs["N"].flat[0])


def counts(client: Client, name: str) -> dict[str, int]:
    found = client.statistics(name)
    assert isinstance(found, list)
    (stats,) = found
    inference = stats["inference_stats"]
    return {
        **{kind: inference[kind]["count"] for kind in ("cache_hit", "cache_miss", "success", "queue", "fail")},
        "inferences": stats["inference_count"],
        "executions": stats["execution_count"],
    }


@rule("5.9.1", "5.9.2")
def test_an_equal_request_is_answered_without_the_model(client: Client) -> None:
    first = infer(client, "m", [1, 2], request_id="first")
    again = infer(client, "m", [1, 2], request_id="again", timeout=5_000_000, priority=1)
    assert call(again) == call(first)
    assert again.outputs["OUT"].tolist() == [[10, 20]]
    assert (first.request_id, again.request_id) == ("first", "again")
    assert call(infer(client, "m", [1, 3])) == call(first) + 1
    assert call(infer(client, "other", [1, 2])) == 1  # answers of another model are not its own


@rule("5.9.1")
def test_both_the_server_and_the_model_must_want_it(client: Client) -> None:
    for name in ("off", "said_off"):
        first = call(infer(client, name, [1]))
        assert call(infer(client, name, [1])) == first + 1


@rule("5.9.2")
def test_a_request_of_another_shape_is_another_one(client: Client) -> None:
    first = infer(client, "m", [21, 22])
    second = infer(client, "m", [21], [22])
    if client.side == "real":
        assert second.outputs["OUT"].shape == (1, 2)
        assert call(second) == call(first)
    else:
        assert second.outputs["OUT"].shape == (2, 1)
        assert call(second) == call(first) + 1


@rule("5.9.2")
def test_a_request_for_another_output_is_another_one(client: Client) -> None:
    infer(client, "m", [31], outputs=["OUT"])
    second = infer(client, "m", [31], outputs=["N"])
    assert set(second.outputs) == ({"OUT"} if client.side == "real" else {"N"})


@rule("5.9.2", "5.9.4")
def test_a_request_that_names_all_outputs_is_no_other_one(client: Client) -> None:
    """The model cannot tell it from one that names none."""
    first = call(infer(client, "m", [36]))
    for outputs in (["OUT", "N"], ["N", "OUT"]):
        again = infer(client, "m", [36], outputs=outputs)
        assert (call(again), set(again.outputs)) == (first, {"OUT", "N"})


@rule("5.9.2", "5.9.4")
@pytest.mark.parametrize("name", ["pair", "ranked"])
def test_hits_and_misses_of_many_requests(client: Client, name: str) -> None:
    """Requests differ by the bytes of their inputs, and by nothing that is only about how they are sent."""
    random = Random(7)
    before, first, executed = counts(client, name), dict[Any, int](), 0
    for number in range(150):
        rows = [[random.choice([0.0, -0.0, 1.5, math.nan])] for _ in range(random.choice([1, 2]))]
        inputs: dict[str, Any] = {"A": np.array(rows, np.float32)}
        if random.random() < 0.5:
            inputs["T"] = np.array([[random.choice([b"", b"x"])] for _ in rows], object)
        key = inputs["A"].tobytes(), str(inputs.get("T"))
        answer = client.infer(
            name,
            {each: inputs[each] for each in random.sample(list(inputs), len(inputs))},
            version=random.choice([-1, 1]),
            request_id=random.choice(["", f"r{number}"]),
            outputs=random.choice([[], ["N", "S"], ["S", "N"]]),
            timeout=random.choice([0, 5_000_000]),
            priority=random.choice([0, 1, 2]),
        )
        executed += (new := key not in first)
        assert call(answer) == first.setdefault(key, executed), (number, new)
    after = {"cache_hit": 150 - executed, "cache_miss": executed, "success": 150, "executions": executed}
    eventually(lambda: {kind: counts(client, name)[kind] - before[kind] for kind in after} == after)


@rule("5.9.2")
def test_a_request_with_other_parameters_is_another_one(client: Client) -> None:
    first = call(infer(client, "m", [41], parameters={"p": 1}))
    second = call(infer(client, "m", [41], parameters={"p": 2}))
    assert second == (first if client.side == "real" else first + 1)
    assert call(infer(client, "m", [41], parameters={"p": 1})) == first


@pytest.mark.parametrize(("value", "text"), [(13, "ValueError: thirteen"), (14, "fourteen")])
@rule("5.9.3")
def test_an_error_is_not_an_answer_to_keep(client: Client, value: int, text: str) -> None:
    first, second = infer(client, "m", [value]), infer(client, "m", [value])
    assert text in first.error
    if client.side == "real":
        assert (second.error, second.outputs) == ("", {})
    else:
        assert second.error == first.error


@rule("5.9.1", "3.7.5")
def test_an_answer_through_a_sender_is_kept(client: Client) -> None:
    assert call(infer(client, "m", [16])) == call(infer(client, "m", [16]))


@rule("5.9.4", "5.13.1")
def test_hits_and_misses_are_counted(client: Client) -> None:
    before = counts(client, "batcher")
    pending = [client.submit("batcher", {"IN": np.array([[7]], np.int32)}) for _ in range(4)]
    assert len({call(each.answer.result(60)) for each in pending}) == 1
    infer(client, "batcher", [7])
    # of equal requests that are executed together only the one that was kept is a miss
    more = {
        "cache_hit": 1, "cache_miss": 1, "success": 5, "queue": 5, "fail": 0, "inferences": 4, "executions": 1,
    }  # fmt: skip
    expected = {kind: before[kind] + count for kind, count in more.items()}
    eventually(lambda: counts(client, "batcher") == expected)  # Triton counts a batch after its answers
    after = counts(client, "batcher")
    lines = client.metrics().splitlines()
    for metric, value in (("hits", after["cache_hit"]), ("misses", after["cache_miss"])):
        assert f'nv_cache_num_{metric}_per_model{{model="batcher",version="1"}} {value}' in lines
        assert not any(line.startswith(f'nv_cache_num_{metric}_per_model{{model="off"') for line in lines)


@rule("5.9.4")
def test_a_hit_needs_no_place_in_the_queue(client: Client) -> None:
    known = call(infer(client, "full", [1]))
    with held(client, "full", {"IN": np.array([[2]], np.int32)}, Options(request_id="hold")):
        waiting = [client.submit("full", {"IN": np.array([[100 + n]], np.int32)}) for n in range(6)]
        refused = eventually(lambda: [p for p in waiting if p.answer.done()])
        assert refused[0].answer.result().error.endswith("Exceeds maximum queue size")
        assert call(infer(client, "full", [1])) == known


@rule("5.9.4", "5.5.7")
def test_nor_does_it_wait_for_its_turn(client: Client) -> None:
    known = call(infer(client, "ordered", [1]))
    with held(client, "ordered", {"IN": np.array([[2]], np.int32)}, Options(request_id="hold")):
        assert call(infer(client, "ordered", [1])) == known


@rule("5.9.1", "5.8.1")
def test_the_warmup_is_neither_kept_nor_counted_as_a_miss(client: Client) -> None:
    assert counts(client, "warmed")["cache_miss"] == 0
    assert call(infer(client, "warmed", [0])) == 2


@rule("5.9.2")
def test_a_reload_forgets_what_the_model_answered(client: Client) -> None:
    infer(client, "other", [9])
    first = infer(client, "other", [51])
    client.place("other", {**MODELS["other"], "1/model.py": COUNTING.replace("* 10", "* 20")})
    assert client.load("other") is None
    again = infer(client, "other", [51])
    assert call(first) > 1
    assert again.outputs["OUT"].tolist() == [[510 if client.side == "real" else 1020]]


@rule("5.9.1", "5.7.9")
def test_an_ensemble_may_keep_its_answers(client: Client) -> None:
    assert client.placed("whole", {"config.pbtxt": ENSEMBLE, "1/.keep": ""}) is None
    executed = counts(client, "off")["executions"]
    assert call(infer(client, "whole", [5])) == call(infer(client, "whole", [5]))
    eventually(lambda: counts(client, "off")["executions"] == executed + 1)
    eventually(lambda: counts(client, "whole")["cache_hit"] == 1)
    client.unload("whole")


@rule("5.9.1")
def test_the_largest_answers_are_not_kept_and_the_oldest_go(client: Client) -> None:
    def large(value: int, size: int) -> int:
        return call(client.infer("m", {"IN": np.full((1, size), value, np.int32)}))

    assert large(61, 300_000) != large(61, 300_000)  # 1.2 MB
    first = large(70, 30_000)
    for value in range(71, 80):
        large(value, 30_000)
    assert large(70, 30_000) != first
    assert large(79, 30_000) < large(70, 30_000)


@pytest.mark.parametrize(
    ("name", "rest", "text"),
    [
        ("open", "model_transaction_policy { decoupled: true }", "'decoupled' transaction policy"),
        ("ordered", "sequence_batching { }", "sequence batching scheduler"),
    ],
)
@rule("5.9.1", "5.3.1")
def test_models_that_cannot_have_it(side: Client, name: str, rest: str, text: str) -> None:
    failure = side.placed(name, counting(ENABLED, rest))
    assert failure is not None
    assert failure.reason == (
        f"Response Cache does not currently support model {name} with {text}. Please disable the response cache."
    )
    side.unload(name)
