"""The sequence batcher, seen by a model that answers with the call it was executed in, and by its clients."""

from __future__ import annotations

import itertools
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.models import executes

from .clients import Answer, Client, Options, Pending
from .gates import GATE, held, open_gate, queued, started, submit_next
from .models import CPU, config, model
from .rules import rule
from .scripts import eventually

START, END = 1, 2

#: Each response says, as JSON: the call's number, the instance, and of each request in the call its id, flags and
#: inputs. Inputs that are no controls are left out of null requests: Triton has whatever was in memory there.
#: A request whose id begins with `hold` keeps the instance until the test lets it go; 13 in IN raises.
REPORTING = (
    GATE
    + """
import json

import numpy as np
import triton_python_backend_utils as pb_utils


def describe(request):
    null = request.correlation_id() == 0
    inputs = {}
    for tensor in request.inputs():
        array = tensor.as_numpy()
        values = [v.decode() if isinstance(v, bytes) else v for v in array.reshape(-1).tolist()]
        known = not null or tensor.name() != "IN"
        inputs[tensor.name()] = [str(array.dtype), list(array.shape), values if known else None]
    return [request.correlation_id(), request.flags(), inputs]


class TritonPythonModel:
    def initialize(self, args):
        self.calls = 0
        self.directory = args["model_repository"]
        self.instance = args["model_instance_name"].rpartition("_")[2]

    def execute(self, requests):
        self.calls += 1
        seen = [describe(request) for request in requests]
        pass_gate(self.directory, [request.request_id() for request in requests])
        if any(s[0] and s[2]["IN"][2][0] == 13 for s in seen):
            raise ValueError("thirteen")
        text = np.array([json.dumps([self.calls, self.instance, seen]).encode()], dtype=object)
        responses = []
        for request in requests:
            batched = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().ndim == 2
            out = pb_utils.Tensor("OUT", text.reshape(1, 1) if batched else text)
            dropped = pb_utils.Tensor("SO", np.ones((1, 1), dtype=np.int32))
            responses.append(pb_utils.InferenceResponse([out, dropped]))
        return responses
"""
)

#: Counts IN down, one execution at a time: the request is rescheduled until it is 0. Answers with its correlation id
#: and, of each execution, the call's number, the request's flags and the correlation ids in the call. One whose id
#: begins with `wait` comes back without being counted until the test opens the gate `wait`.
COUNTING = GATE + executes(
    """
    self.calls += 1
    ids = [request.correlation_id() for request in requests]
    pass_gate(self.directory, [request.request_id() for request in requests])
    time.sleep(0.02)
    responses = []
    for request in requests:
        ident = request.correlation_id()
        if ident == 0:
            responses.append(pb_utils.InferenceResponse([]))
            continue
        if ident not in self.left:
            count = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            self.left[ident], self.trail[ident] = int(count.flat[0]), []
        waits = request.request_id().startswith("wait") and not os.path.exists(self.directory + "/open.wait")
        self.left[ident] -= not waits
        self.trail[ident].append([self.calls, request.flags(), ids])
        text = np.array([[json.dumps([ident, self.trail[ident]]).encode()]], dtype=object)
        response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)])
        last = self.left[ident] == 0
        if last:
            del self.left[ident]
        else:
            request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        if self.decoupled:
            request.get_response_sender().send(response, flags=int(last))
        responses.append(response if last else None)
    return None if self.decoupled else responses
    """,
    initialize="""
    self.directory = args["model_repository"]
    self.decoupled = pb_utils.using_decoupled_model_transaction_policy(json.loads(args["model_config"]))
    self.calls = 0
    self.left, self.trail = {}, {}
    """,
    imports="import json",
)

#: Answers from a thread, which waits where the request's id begins with `hold`.
LATE = GATE + executes(
    """
    self.calls += 1
    for request in requests:
        threading.Thread(target=self.answer, args=(request, self.calls)).start()
    """,
    initialize="""
    self.calls = 0
    self.directory = args["model_repository"]
    """,
    more="""
    def answer(self, request, call):
        pass_gate(self.directory, [request.request_id()])
        text = pb_utils.Tensor("OUT", np.array([[str(call).encode()]], dtype=object))
        request.get_response_sender().send(pb_utils.InferenceResponse([text]), flags=1)
    """,
    imports="import threading",
)

#: Sends IN requests of one sequence to the model `direct`; the answer is that of the last.
CALLING = executes("""
    responses = []
    for request in requests:
        count = int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
        zero = np.zeros((1, 1), dtype=np.int32)
        for step in range(count):
            answer = pb_utils.InferenceRequest(
                model_name="direct",
                inputs=[pb_utils.Tensor("IN", zero)],
                requested_output_names=["OUT"],
                correlation_id=request.correlation_id(),
                flags=(1 if step == 0 else 0) | (2 if step == count - 1 else 0),
            ).exec()
        if answer.has_error():
            responses.append(pb_utils.InferenceResponse(error=answer.error()))
            continue
        text = pb_utils.get_output_tensor_by_name(answer, "OUT").as_numpy().reshape(1)
        responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]))
    return responses
""")


def control(kind: str, values: str, name: str = "") -> str:
    return f'control_input {{ name: "{name or kind}" control {{ kind: CONTROL_SEQUENCE_{kind} {values} }} }}'


INT32 = "int32_false_true: [ 0, 1 ]"
CORRID = control("CORRID", "data_type: TYPE_UINT64")
CONTROLS = " ".join([*(control(kind, INT32) for kind in ("START", "END", "READY")), CORRID])
DECOUPLED = "model_transaction_policy { decoupled: true }"


def sequences(strategy: str, *more: str, batch: int = 2, source: str = REPORTING, inputs: str = "IN INT32 1",
              idle_ms: int = 5000, instances: str = CPU, outputs: str = "OUT STRING 1") -> Any:  # fmt: skip
    batching = f"sequence_batching {{ max_sequence_idle_microseconds: {idle_ms * 1000} {strategy} }}"
    return model(source, config(inputs, outputs, f"max_batch_size: {batch}", batching, instances, *more))


STATE = """
state { input_name: "ZERO" output_name: "SO" data_type: TYPE_INT32 dims: [ 2 ]
        initial_state { name: "z" data_type: TYPE_INT32 dims: [ 2 ] zero_data: true } }
state { input_name: "FILE" output_name: "SP" data_type: TYPE_INT32 dims: [ -1, 2 ]
        initial_state { name: "f" data_type: TYPE_INT32 dims: [ 3, 2 ] data_file: "seed" } }
state { input_name: "TEXT" output_name: "SQ" data_type: TYPE_STRING dims: [ 2 ] }
"""
SEED = "".join(chr(n) + "\0\0\0" for n in range(1, 7))
TWO = "instance_group { kind: KIND_CPU count: 2 }"
ITERATIVE = "iterative_sequence: true"

MODELS = {
    "direct": sequences(f"direct {{ }} {CONTROLS}"),
    "oldest": sequences(f"oldest {{ max_candidate_sequences: 2 }} {CONTROLS}"),
    "direct_unbatched": sequences(f"direct {{ }} {CONTROLS}", batch=0),
    "direct_two": sequences("direct { }", instances=TWO),
    "oldest_two": sequences("oldest { max_candidate_sequences: 2 }", instances=TWO),
    "wide": sequences(f"direct {{ }} {CONTROLS}", batch=4),
    "shaped": sequences("direct { }", batch=4, inputs="IN INT32 -1"),
    "optional": sequences("direct { }", batch=4, inputs="IN INT32 1;MORE INT32 1 optional"),
    "utilized": sequences("direct { minimum_slot_utilization: 0.75 max_queue_delay_microseconds: 1500000 }", batch=4),
    "preferring": sequences(
        "oldest { max_candidate_sequences: 4 preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 1500000 }",
        batch=4,
    ),
    "idle_direct": sequences("direct { }", idle_ms=2000),
    "idle_oldest": sequences("oldest { max_candidate_sequences: 2 }", idle_ms=2000),
    "pairs": sequences(
        "direct { } "
        + control("START", "fp32_false_true: [ 0, 2.5 ]")
        + control("END", "bool_false_true: [ true, false ]")
        + control("CORRID", "data_type: TYPE_INT32")
    ),
    "shared": sequences(
        'control_input { name: "C" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } '
        "control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 5, 6 ] } }"
    ),
    "text_id": sequences("oldest { } " + control("CORRID", "data_type: TYPE_STRING")),
    "state": {**sequences(f"oldest {{ }} {STATE}"), "initial_state/seed": SEED},
    "counting_oldest": sequences(f"oldest {{ max_candidate_sequences: 3 }} {ITERATIVE}", batch=4, source=COUNTING),
    "counting_direct": sequences(f"direct {{ }} {ITERATIVE}", batch=4, source=COUNTING),
    "counting_stream": sequences(f"oldest {{ }} {ITERATIVE}", DECOUPLED, source=COUNTING),
    "late": sequences("oldest { max_candidate_sequences: 2 }", DECOUPLED, source=LATE),
    "calling": model(CALLING, config("IN INT32 1", "OUT STRING 1")),
}
BOTH = pytest.mark.parametrize("name", ["direct", "oldest"])


def value(number: int = 0, width: int = 1) -> dict[str, Any]:
    return {"IN": np.full((1, width), number, dtype=np.int32)}


def submit(
    client: Client, name: str, inputs: dict[str, Any], ident: int | str, flags: int, timeout: int = 0
) -> Pending:
    """Send a request and return when the server has it: what is sent next comes after it."""
    request_id = f"request{next(_numbers)}"
    options = Options(request_id=request_id, correlation_id=ident, flags=flags, timeout=timeout)
    return submit_next(client, name, inputs, options, request_id)


_numbers = itertools.count()


def begin(client: Client, name: str, ident: int | str, flags: int = 0, number: int = 0, timeout: int = 0) -> Pending:
    return submit(client, name, value(number), ident, flags, timeout)


def hold(client: Client, name: str, ident: int | str, flags: int, number: int = 0) -> AbstractContextManager[Pending]:
    """Let the request keep the instance busy."""
    return held(client, name, value(number), Options(request_id="hold", correlation_id=ident, flags=flags))


def call_of(answer: Answer) -> Any:
    """Return [call, instance, [[id, flags, inputs], ...]] of an answer."""
    assert answer.error == "", answer
    return json.loads(answer.outputs["OUT"].reshape(-1)[0])


def infer(client: Client, name: str, ident: int | str, flags: int = 0) -> Any:
    return call_of(begin(client, name, ident, flags).answer.result(30))


def refusal(pending: Pending) -> tuple[str, str]:
    answer = pending.answer.result(30)
    return answer.code, answer.error


def calls(pending: list[Pending]) -> list[tuple[int, list[Any]]]:
    """Return for each answer the number of its call since the first of these, and the ids in that call."""
    answers = [call_of(p.answer.result(30)) for p in pending]
    first = min(answer[0] for answer in answers)
    return [(answer[0] - first, [one[0] for one in answer[2]]) for answer in answers]


def no_start(name: str, ident: int | str) -> tuple[str, str]:
    return "INVALID_ARG", (
        f"inference request for sequence {ident} to model '{name}' must specify the START flag on the first request "
        "of the sequence"
    )


# -- what is refused


@BOTH
@rule("5.6.1")
def test_requests_that_fit_no_sequence_are_refused(client: Client, name: str) -> None:
    assert refusal(begin(client, name, 0)) == (
        "INVALID_ARG",
        f"inference request to model '{name}' must specify a non-zero or non-empty correlation ID",
    )
    assert refusal(begin(client, name, 90)) == no_start(name, 90)
    assert refusal(begin(client, name, "ninety", END)) == no_start(name, "ninety")
    pair = client.infer(name, {"IN": np.zeros((2, 1), dtype=np.int32)}, correlation_id=90, flags=START)
    assert (pair.code, pair.error) == (
        "INVALID_ARG",
        f"inference request to model '{name}' must specify batch-size 1 due to requirements of sequence batcher",
    )


@BOTH
@rule("5.6.1")
def test_after_its_end_a_sequence_must_start_again(client: Client, name: str) -> None:
    infer(client, name, 91, START)
    infer(client, name, 91, END)
    assert refusal(begin(client, name, 91)) == no_start(name, 91)
    assert infer(client, name, 91, START | END)[2][-1][:2] == [91, START | END]


# -- controls


@BOTH
@rule("5.6.5", "5.6.8")
def test_controls_are_inputs_that_no_client_sends(client: Client, name: str) -> None:
    def int32(number: int) -> list[Any]:
        return ["int32", [1, 1], [number]]

    for flags in (START, 0, END):
        ((ident, seen, inputs),) = infer(client, name, 5, flags)[2]
        assert (ident, seen) == (5, flags)
        assert inputs == {
            "IN": int32(0),
            "START": int32(flags & START),
            "END": int32(flags >> 1),
            "READY": int32(1),
            "CORRID": ["uint64", [1, 1], [5]],
        }
    sent = client.infer(name, {"READY": np.ones((1, 1), dtype=np.int32)}, correlation_id=5, flags=START)
    assert sent.error == f"unexpected inference input 'READY' for model '{name}'"
    metadata = client.metadata(name)
    assert isinstance(metadata, dict)
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["IN"]


@rule("5.6.5")
def test_without_a_batch_dimension_controls_have_one_dimension(client: Client) -> None:
    answer = client.infer("direct_unbatched", {"IN": np.zeros(1, dtype=np.int32)}, correlation_id=5, flags=START | END)
    ((_, _, inputs),) = call_of(answer)[2]
    assert [inputs[name][1] for name in ("IN", "START", "END", "READY", "CORRID")] == [[1]] * 5


@rule("5.6.5")
def test_values_and_types_of_controls(client: Client) -> None:
    seen = [infer(client, "pairs", ident, flags)[2][0][2] for ident, flags in ((7, START), (7, 0), (7, END))]
    assert [s["START"] for s in seen] == [["float32", [1, 1], [v]] for v in (2.5, 0.0, 0.0)]
    assert [s["END"] for s in seen] == [["bool", [1, 1], [v]] for v in (True, True, False)]
    assert seen[0]["CORRID"] == ["int32", [1, 1], [7]]
    ((_, _, cut),) = infer(client, "pairs", 2**31 + 5, START | END)[2]
    assert cut["CORRID"][2] == [5 - 2**31]


@rule("5.6.5")
def test_of_two_controls_in_one_tensor_the_end_wins(client: Client) -> None:
    assert [infer(client, "shared", 7, flags)[2][0][2]["C"][2] for flags in (START, 0, END)] == [[5], [5], [6]]


@rule("5.6.6", "1.7.7")
def test_a_text_id_stays_a_text_and_is_a_number_as_a_control(client: Client) -> None:
    ((ident, _, inputs),) = infer(client, "oldest", "stream-1", START | END)[2]
    assert ident == "stream-1"
    assert inputs["CORRID"] == ["uint64", [1, 1], [int.from_bytes(b"\x08\0\0\0stre", "little")]]


@rule("5.6.6")
def test_a_text_control(client: Client) -> None:
    answer = client.infer("text_id", value(), correlation_id="abc", flags=START | END)
    if client.side == "real":  # repaired in later releases, rule 5.6.6 and section 8
        assert answer.error == "unexpected number of string elements 2 for inference input 'CORRID', expecting 1"
    else:
        ((_, _, inputs),) = call_of(answer)[2]
        assert inputs["CORRID"] == ["object", [1, 1], ["abc"]]


# -- slots


@BOTH
@rule("5.6.2", "5.6.3")
def test_backlogged_sequences_run_in_order_when_others_end(client: Client, name: str) -> None:
    script = [(1, START), (2, START), (3, START), (3, 0), (4, START | END), (3, END), (1, END), (2, END)]
    pending = [begin(client, name, ident, flags) for ident, flags in script]
    order = dict(zip(script, [number for number, _ in calls(pending)], strict=True))
    assert order[1, END] < order[3, START] < order[3, 0] < order[3, END]
    assert order[1, END] < order[4, START | END]


@pytest.mark.parametrize("name", ["direct_two", "oldest_two"])
@rule("5.6.2", "5.6.3")
def test_sequences_spread_over_instances_and_stay_there(client: Client, name: str) -> None:
    first = [infer(client, name, ident, START)[1] for ident in (1, 2, 3, 4)]
    assert (first[0] != first[1], first[2:]) == (True, first[:2])
    assert [infer(client, name, ident, END)[1] for ident in (4, 3, 2, 1)] == first[::-1]


@BOTH
@rule("5.6.2")
def test_a_second_start_of_an_open_sequence_follows_and_is_logged(client: Client, name: str) -> None:
    with hold(client, name, 6, START) as first:
        pending = [first, *(begin(client, name, 6, flags) for flags in (0, START, END))]
    assert [number for number, _ in calls(pending)] == [0, 1, 2, 3]
    assert (
        f"sequence 6 for model '{name}' has a conflict. The previous sequence did not end before this sequence start. "
        "Previous sequence will be terminated early."
    ) in client.log()


@BOTH
@rule("5.6.3")
def test_a_backlogged_sequence_times_out_by_the_shortest_timeout_of_its_requests(client: Client, name: str) -> None:
    for ident in (1, 2):
        infer(client, name, ident, START)
    expired = "UNAVAILABLE", "timeout of the corresponding sequence has been expired"
    pending = [begin(client, name, 3, START, timeout=20_000_000), begin(client, name, 3, timeout=300_000)]
    assert [refusal(p) for p in pending] == [expired] * 2
    assert refusal(begin(client, name, 3)) == no_start(name, 3)
    for ident in (1, 2):
        infer(client, name, ident, END)


@pytest.mark.parametrize("name", ["idle_direct", "idle_oldest"])
@rule("5.6.4")
def test_an_idle_sequence_loses_its_slot(client: Client, name: str) -> None:
    infer(client, name, 1, START)
    infer(client, name, 2, START)
    waiting = begin(client, name, 3, START | END)
    time.sleep(1.0)
    infer(client, name, 1)  # 2 is idle first
    assert call_of(waiting.answer.result(60))[2][-1][0] == 3
    assert refusal(begin(client, name, 2)) == no_start(name, 2)
    infer(client, name, 1, END)


@pytest.mark.parametrize("name", ["idle_direct", "idle_oldest"])
@rule("5.6.4")
def test_a_sequence_is_idle_while_it_executes(client: Client, name: str) -> None:
    with hold(client, name, 4, START) as first:
        pending = [first, begin(client, name, 4)]
        time.sleep(2.2)
        assert refusal(begin(client, name, 4)) == no_start(name, 4)
    assert [number for number, _ in calls(pending)] == [0, 1]  # what was queued runs all the same


@BOTH
@rule("3.5.3", "5.6.2")
def test_a_failed_call_does_not_end_the_sequence(client: Client, name: str) -> None:
    infer(client, name, 8, START)
    code, text = refusal(begin(client, name, 8, 0, 13))
    assert code == "INTERNAL"
    assert "ValueError: thirteen" in text
    infer(client, name, 8)
    assert "ValueError: thirteen" in refusal(begin(client, name, 8, END, 13))[1]
    assert refusal(begin(client, name, 8)) == no_start(name, 8)


@BOTH
@rule("3.10.2")
def test_cancelling_a_queued_request_ends_its_sequence(client: Client, name: str) -> None:
    with hold(client, name, 9, START) as first:
        gone, after = begin(client, name, 9), begin(client, name, 9)
        gone.cancel()
        time.sleep(0.3)  # nothing tells when the server knows
    assert gone.answer.result(30).code == "CANCELLED"
    assert refusal(after) == ("CANCELLED", "")
    assert call_of(first.answer.result(30))[2][0][0] == 9
    assert refusal(begin(client, name, 9)) == no_start(name, 9)


@pytest.mark.parametrize("name", ["direct_two", "oldest_two"])
@rule("5.6.3")
def test_the_next_sequence_goes_to_the_other_instance(client: Client, name: str) -> None:
    with hold(client, name, 7, START | END) as first:  # its slot is free again, and its instance is busy
        second = call_of(begin(client, name, 8, START | END).answer.result(30))
    assert second[1] != call_of(first.answer.result(30))[1]


@BOTH
@rule("5.6.3")
def test_what_waits_before_a_cancelled_request_still_runs(client: Client, name: str) -> None:
    with hold(client, name, 8, START | END):
        before = [begin(client, name, 9, START), begin(client, name, 9)]
        gone, after = begin(client, name, 9), begin(client, name, 9)
        gone.cancel()
        time.sleep(0.3)  # nothing tells when the server knows
    assert [call_of(p.answer.result(30))[2][-1][:2] for p in before] == [[9, START], [9, 0]]
    assert refusal(after) == ("CANCELLED", "")
    assert refusal(begin(client, name, 9)) == no_start(name, 9)


# -- direct


@rule("5.6.7")
def test_idle_slots_below_an_active_one_are_null_requests(client: Client) -> None:
    for ident in (1, 2, 3):
        infer(client, "wide", ident, START)
    assert [one[0] for one in infer(client, "wide", 2, 0)[2]] == [0, 2]
    null, other, last = infer(client, "wide", 3, END)[2]
    assert (null[:2], other[:2], last[:2]) == ([0, 0], [0, 0], [3, END])
    assert {kind: null[2][kind][2] for kind in ("START", "END", "READY", "CORRID")} == {
        "START": [0],
        "END": [0],
        "READY": [0],
        "CORRID": [0],
    }
    assert null[2]["IN"][:2] == ["int32", [1, 1]]
    for ident in (1, 2):
        infer(client, "wide", ident, END)


@rule("5.6.7", "5.12.2")
def test_null_requests_are_no_inferences_but_count_in_the_batch(client: Client) -> None:
    def counts() -> tuple[list[int], dict[int, int]]:
        found = client.statistics("shaped")
        assert isinstance(found, list)
        stats = found[0].get("model_stats", found)[0]
        sizes = {b["batch_size"]: b["compute_infer"]["count"] for b in stats["batch_stats"]}
        success = stats["inference_stats"]["success"]["count"]
        return [stats["inference_count"], stats["execution_count"], success], sizes

    before, sizes_before = counts()
    for ident in (1, 2):
        infer(client, "shaped", ident, START)
    for ident in (2, 1):
        infer(client, "shaped", ident, END)
    # Triton counts once it has answered
    eventually(lambda: [now - then for now, then in zip(counts()[0], before, strict=True)] == [4, 4, 4])
    sizes_after = counts()[1]
    assert {size: sizes_after[size] - sizes_before.get(size, 0) for size in (1, 2)} == {1: 2, 2: 2}


@rule("5.6.7", "5.5.5")
def test_a_slot_with_another_shape_waits_for_the_next_batch(client: Client) -> None:
    widths = {1: 3, 2: 2, 3: 2, 4: 3}
    with hold(client, "shaped", 1, START) as first:
        pending = [
            submit(client, "shaped", value(0, width), ident, END if ident == 1 else START | END)
            for ident, width in widths.items()
        ]
    assert calls([first, *pending]) == [
        (0, [1]),
        (1, [1, 0, 0, 4]),
        (2, [0, 2, 3]),
        (2, [0, 2, 3]),
        (1, [1, 0, 0, 4]),
    ]


@rule("5.6.7", "5.5.6")
def test_so_does_one_with_other_inputs(client: Client) -> None:
    more = {**value(), "MORE": np.zeros((1, 1), dtype=np.int32)}
    with hold(client, "optional", 1, START) as first:
        pending = [
            submit(client, "optional", inputs, ident, END if ident == 1 else START | END)
            for ident, inputs in ((1, more), (2, value()), (3, more))
        ]
    assert calls([first, *pending]) == [(0, [1]), (1, [1, 0, 3]), (2, [0, 2]), (1, [1, 0, 3])]


@rule("5.6.7")
def test_a_batch_waits_for_enough_slots_or_for_the_delay(client: Client) -> None:
    sent_at = time.monotonic()
    infer(client, "utilized", 1, START)
    assert time.monotonic() - sent_at >= 1.5
    pending = [begin(client, "utilized", ident, flags) for ident, flags in ((1, END), (2, START), (3, START))]
    assert calls(pending) == [(0, [1, 2, 3])] * 3
    pending = [begin(client, "utilized", ident, END) for ident in (2, 3)]
    assert calls(pending) == [(0, [0, 2, 3])] * 2


# -- oldest


@rule("5.6.8")
def test_candidates_go_by_preferred_size_and_delay(client: Client) -> None:
    for pair in (((1, START), (2, START)), ((3, START), (1, END)), ((2, END), (3, END))):
        pending = [begin(client, "preferring", ident, flags) for ident, flags in pair]
        assert calls(pending) == [(0, [ident for ident, _ in pair])] * 2
    sent_at = time.monotonic()
    infer(client, "preferring", 4, START | END)
    assert time.monotonic() - sent_at >= 1.5


@rule("5.6.8", "5.6.2")
def test_a_decoupled_sequence_goes_on_before_its_last_answer(client: Client) -> None:
    # With 2.51 a request is out of the way when `execute` has returned, whenever it is answered.
    def stream(flags: int, name: str) -> int:
        options = Options(request_id=name, correlation_id=1, flags=flags)
        return int(client.stream("late", value(), options)[0].outputs["OUT"].reshape(-1)[0])

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(stream, START, "hold")
        eventually(lambda: started(client, "late"))
        second = pool.submit(stream, END, "second").result(30)
        assert not first.done()
        open_gate(client, "late", "hold")
        assert second == first.result(30) + 1


# -- state


@rule("5.6.10")
def test_state_inputs_keep_their_initial_value(client: Client) -> None:
    for flags in (START, 0, END):
        answer = client.infer("state", value(), correlation_id=1, flags=flags)
        ((_, _, inputs),) = call_of(answer)[2]
        assert inputs["ZERO"] == ["int32", [1, 2], [0, 0]]
        assert inputs["FILE"] == ["int32", [1, 1, 2], [1, 2]]  # -1 is 1, whatever the initial state's dims
        assert inputs["TEXT"] == ["object", [1, 2], ["", ""]]
        assert set(answer.outputs) == {"OUT"}  # what the model says about its state is dropped


@rule("5.6.10")
def test_a_state_without_data_has_its_shape(client: Client) -> None:
    # its numbers are whatever was in memory with 2.51, zeros with us
    text = 'direct { } state { input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ -1, 3 ] }'
    assert client.placed("blank_state", sequences(text)) is None
    try:
        ((_, _, inputs),) = infer(client, "blank_state", 1, START | END)[2]
        assert inputs["S"][:2] == ["float32", [1, 1, 3]]
    finally:
        client.unload("blank_state")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            {},
            "Internal: failed to open text file for read <repository>/broken_state/initial_state/seed: "
            "No such file or directory",
        ),
        (
            {"initial_state/seed": "abc"},
            "Invalid argument: initial_state setting expects 24 bytes, but the data provided from seedonly has 3 "
            "bytes.",
        ),
    ],
)
@rule("5.6.10", "2.5.1")
def test_initial_data_that_cannot_be_read(side: Client, files: dict[str, str], reason: str) -> None:
    failure = side.placed("broken_state", {**sequences(f"direct {{ }} {STATE}"), **files})
    assert failure is not None
    text = f"load failed for model 'broken_state': version 1 is at UNAVAILABLE state: {reason};\n"
    assert (failure.code, failure.text) == ("INVALID_ARG", text)
    side.unload("broken_state")


# -- iterative


@pytest.mark.parametrize("name", ["counting_oldest", "counting_direct"])
@rule("3.9.1", "3.9.2", "5.6.9")
def test_a_request_comes_back_until_it_is_released(client: Client, name: str) -> None:
    ident, trail = call_of(client.infer(name, value(3)))
    assert ident >= 1
    assert [flags for _, flags, _ in trail] == [START, 0, 0]
    assert call_of(client.infer(name, value(1)))[0] == ident + 1  # ids count up, per model
    assert call_of(client.infer(name, value(2), correlation_id="mine", flags=START))[0] == "mine"
    assert refusal(begin(client, name, "mine")) == no_start(name, "mine")


@pytest.mark.parametrize("name", ["counting_oldest", "counting_direct"])
@rule("3.9.3", "3.9.6")
def test_new_requests_join_between_iterations(client: Client, name: str) -> None:
    # Triton may start each call with the first that came back, on a busy machine all of them
    eventually(lambda: any(len(ids) > 1 for ids in _calls_with_the_first(client, name)))


def _calls_with_the_first(client: Client, name: str) -> list[list[int]]:
    """Return the sequences in each call with the first of three, as their distance from it: it is alone in the first
    call, before the others are sent, and in the last, since it counts further."""
    with held(client, name, value(8), Options(request_id="hold")) as first:
        pending = [first, *(submit_next(client, name, value(4)) for _ in range(2))]
        eventually(lambda: queued(client, name) == 2)
    trails = [call_of(p.answer.result(30)) for p in pending]
    ident = trails[0][0]
    together = [sorted(i - ident for i in ids if i) for _, _, ids in trails[0][1]]
    assert together[0] == together[-1] == [0]
    return together


def _has_started(client: Client, name: str, ident: str) -> bool:
    return ident in started(client, name)


@rule("3.9.6")
def test_with_the_direct_strategy_a_slot_that_ended_is_a_null_request(client: Client) -> None:
    # the slot of an earlier request may be free only after the first has taken another; the third is above both
    pending = []
    for count, name in ((2, "wait1"), (2, "wait2"), (5, "wait3")):
        pending.append(client.submit("counting_direct", value(count), Options(request_id=name)))
        eventually(partial(_has_started, client, "counting_direct", name))
    open_gate(client, "counting_direct", "wait")
    first, second, third = (call_of(p.answer.result(30)) for p in pending)
    ids = [ids for _, _, ids in third[1]]
    assert [first[0], second[0], third[0]] in [[*sorted(one[:2]), *one[2:]] for one in ids]
    assert ids[-1] == [0, 0, third[0]]


@rule("3.9.4")
def test_a_decoupled_model_answers_between_iterations(client: Client) -> None:
    answers = [call_of(a) for a in client.stream("counting_stream", value(3)) if a.outputs]
    assert [len(trail) for _, trail in answers] == [1, 2, 3]
    assert [flags for _, flags, _ in answers[-1][1]] == [START, 0, 0]


@rule("3.9.5")
def test_without_iterative_sequences_nothing_comes_back(lab: Client) -> None:
    # on our side only: Triton writes this into its log, and the client waits for ever
    assert lab.placed("not_iterative", sequences("direct { }", source=COUNTING)) is None
    answer = lab.infer("not_iterative", value(2), correlation_id=1, flags=START)
    assert (answer.code, answer.error) == (
        "INTERNAL",
        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle "
        "such a flag.",
    )
    lab.unload("not_iterative")


@rule("3.9.2")
def test_a_request_that_is_its_sequences_end_cannot_come_back(lab: Client) -> None:
    # on our side only, for the same reason
    assert lab.placed("ending", sequences(f"direct {{ }} {ITERATIVE}", source=COUNTING)) is None
    assert refusal(begin(lab, "ending", 5, START | END, 2)) == no_start("ending", 5)
    lab.unload("ending")


# -- BLS


@rule("4.3.4", "1.7.7")
def test_a_model_keeps_a_sequence_with_another_one(client: Client) -> None:
    for ident in (70, "seventy"):
        inputs = {"IN": np.full(1, 3, dtype=np.int32)}
        answer = client.infer("calling", inputs, correlation_id=ident, flags=START)
        assert call_of(answer)[2][-1][:2] == [ident, END]


@rule("4.2.1", "5.6.1")
def test_a_model_that_starts_no_sequence_gets_an_error(client: Client) -> None:
    answer = client.infer("calling", {"IN": np.full(1, 2, dtype=np.int32)})
    assert answer.error == (
        "Model direct - Error when running inference: inference request to model 'direct' must specify a non-zero or "
        "non-empty correlation ID"
    )
