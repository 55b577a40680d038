from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.stub.stub_side import MIB, StubSide
from tritonlab.stub._pb_stub.wire.message_bodies import LAST, NO_RESPONSE, Failure, TensorHeader

FAILED = "Failed to process the request(s) for model 'm_0_0', message: "
X = np.arange(3, dtype=np.float32)


@pytest.fixture
def side() -> Iterator[StubSide]:
    side = StubSide(stub_limit=4 * MIB)
    yield side
    side.close()


class Model:
    """A model whose `execute` is the function."""

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self.execute = function


def test_a_batch_goes_in_and_comes_out(side: StubSide, pb_utils: ModuleType) -> None:
    def double(requests: list[Any]) -> list[Any]:
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", request.inputs()[0].as_numpy() * 2)])
            for request in requests
        ]

    side.serve(Model(double))
    body = side.execute(side.entry(7, ("X", X)), side.entry(8, ("X", X + 10)))
    input_ns, infer_ns, output_ns, error, block, responses = body
    assert error is None
    assert min(input_ns, infer_ns, output_ns) >= 0
    assert [side.output(tensors[0]).tolist() for tensors, _, _ in responses] == [[0, 2, 4], [20, 22, 24]]
    assert block == TensorHeader._make(responses[0].tensors[0]).offset
    assert side.region.used == 0  # the inputs came back with the answer
    assert side.bridge.open_requests == {}


def test_what_a_request_says(side: StubSide, pb_utils: ModuleType) -> None:
    recorded: list[Any] = []

    def look(requests: list[Any]) -> list[Any]:
        for request in requests:
            recorded.append((request.request_id(), request.parameters(), sorted(request.requested_output_names())))
        return [pb_utils.InferenceResponse([]) for _ in requests]

    side.serve(Model(look), ("A", "B"))
    side.execute(side.entry(1, id="one", parameters='{"p":1}', outputs=["B"]), side.entry(2))
    assert recorded == [("one", '{"p":1}', ["B"]), ("", "{}", ["A", "B"])]


def test_only_requested_outputs_are_sent(side: StubSide, pb_utils: ModuleType) -> None:  # rules 3.4.1, 3.4.2
    def both(requests: list[Any]) -> list[Any]:
        tensors = [pb_utils.Tensor(name, X) for name in ("A", "B", "UNKNOWN")]
        return [pb_utils.InferenceResponse(tensors) for _ in requests]

    side.serve(Model(both), ("A", "B", "MISSING"))
    *_, responses = side.execute(side.entry(1, outputs=["B"]), side.entry(2), side.entry(3, outputs=["MISSING"]))
    assert [[TensorHeader._make(row).name for row in tensors] for tensors, _, _ in responses] == [["B"], ["A", "B"], []]
    side.execute(side.entry(4), ident=2)
    # once, and not for an output that was only not requested
    text = "Triton checks no outputs: 'UNKNOWN' is not an output of the config and was dropped."
    assert side.logged == [(1, "", 0, text)]


def test_an_error_response_keeps_its_tensors(side: StubSide, pb_utils: ModuleType) -> None:  # rule 1.8.4
    error = pb_utils.TritonError("no", pb_utils.TritonError.UNAVAILABLE)
    response = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", X)], error)
    side.serve(Model(lambda requests: [response]))
    *_, block, responses = side.execute(side.entry(1))
    assert (block, responses) == (None, [([], [4, "no", None], "")])


def failing(function: Callable[[list[Any]], Any], side: StubSide, **options: Any) -> Failure:
    side.serve(Model(function), **options)
    *_, error, block, responses = side.execute(side.entry(1, ("X", X)), side.entry(2, ("X", X)))
    assert (block, responses) == (None, [])
    gc.collect()
    assert side.bridge.open_requests == {}
    assert side.bridge.region.used == 0
    assert error is not None
    return error


def raiser(error: BaseException) -> Callable[[list[Any]], Any]:
    def execute(requests: list[Any]) -> Any:
        raise error

    return execute


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3), KeyboardInterrupt("k"), MemoryError("m")])
def test_whatever_execute_raises_is_an_outcome(side: StubSide, error: BaseException) -> None:  # rule 3.5.1
    outcome = failing(raiser(error), side)
    assert outcome.text.startswith(f"{FAILED}{type(error).__name__}: {error}\n\nAt:\n")
    assert outcome.exception["type"] == type(error).__name__
    ((file, line, text),) = side.raised
    assert text == outcome.text  # rule 3.5.4
    assert (file, line) == (__file__, raiser.__code__.co_firstlineno + 2)


def test_a_broken_rule_is_logged_as_well(side: StubSide) -> None:  # rule 3.5.4
    outcome = failing(lambda requests: 5, side)
    assert side.raised == [("/repository/m/1/model.py", 0, outcome.text)]


@pytest.mark.parametrize(
    ("returned", "tail"),
    [
        (("tuple",), "Expected a list in the execute return, found type '<class 'tuple'>'."),
        ([], "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "),
        (
            [1, 2],
            "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'",
        ),
        (None, "The execute function returned None for a request whose response sender was never used"),
        ([None, None], "The execute function returned None for a request whose response sender was never used"),
    ],
)
def test_wrong_returns(side: StubSide, pb_utils: ModuleType, returned: Any, tail: str) -> None:  # rule 3.2
    assert failing(lambda requests: returned, side).text.startswith(FAILED + tail)


def test_checks_come_in_tritons_order(side: StubSide, pb_utils: ModuleType) -> None:  # rule 3.2.4
    assert "Number of InferenceResponse" in failing(lambda requests: [5], side).text


def test_a_decoupled_model_returns_nothing(side: StubSide, pb_utils: ModuleType) -> None:  # rule 3.3.1
    text = failing(lambda requests: [], side, decoupled=True).text
    assert text == (
        f"{FAILED}Python model 'm_0_0' is using the decoupled mode and the execute function must return None."
    )


def test_a_model_without_execute(side: StubSide) -> None:  # rule 2.1.7
    side.serve(object())
    *_, error, _, _ = side.execute(side.entry(1))
    assert error.text.endswith("Python model /repository/m/1/model.py does not implement `execute` method.")


def test_outputs_that_do_not_fit_fail_the_batch(side: StubSide, pb_utils: ModuleType) -> None:  # rule 2.9.1
    big = pb_utils.Tensor("OUT", np.zeros(2 * MIB, np.float32))
    outcome = failing(lambda requests: [pb_utils.InferenceResponse([big]) for _ in requests], side)
    assert outcome.text.startswith(FAILED + "Failed to increase the shared memory pool size to ")


def test_an_input_that_cannot_be_mapped_fails_the_batch(
    side: StubSide, pb_utils: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(end: int) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(side.bridge.reader, "_remap", no_memory)
    outcome = failing(lambda requests: [], side)
    assert outcome.text.startswith(FAILED + "OSError: [Errno 12] Cannot allocate memory")
    side.execute(side.entry(3))
    assert side.region.used == 0  # the inputs came back all the same


# -- senders


def test_an_answer_through_the_sender_goes_first(side: StubSide, pb_utils: ModuleType) -> None:  # rule 3.2.3
    def execute(requests: list[Any]) -> list[Any]:
        requests[0].get_response_sender().send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", X)]), 1)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", X + 1)]) for _ in requests]

    side.serve(Model(execute))
    first, second = side.entry(1), side.entry(2)
    side.loop._executor.execute(5, None, [first, second])
    flags, _, tensors, error, _ = side.expect("RESPONSE", 1)
    assert (flags, error) == (1, None)
    assert side.output(tensors[0]).tolist() == X.tolist()
    *_, error, _, responses = side.expect("EXECUTED", 5)
    assert error is None
    assert responses[0] is None
    (header,), *_ = responses[1]
    assert side.output(header).tolist() == (X + 1).tolist()


def test_a_decoupled_request_stays_open_until_its_final(side: StubSide, pb_utils: ModuleType) -> None:
    senders: list[Any] = []
    side.serve(Model(lambda requests: senders.extend(r.get_response_sender() for r in requests)), decoupled=True)
    *_, error, block, responses = side.execute(side.entry(1))
    assert (error, block, responses) == (None, None, [None])
    for number in range(3):
        senders[0].send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", X + number)]))
        _, _, tensors, _, _ = side.expect("RESPONSE", 1)
        assert side.output(tensors[0]).tolist() == (X + number).tolist()
    assert list(side.bridge.open_requests) == [1]
    senders[0].send(flags=1)
    assert side.expect("RESPONSE", 1) == (LAST | NO_RESPONSE, None, [], None, "")
    assert side.bridge.open_requests == {}


def test_a_rescheduled_request_is_marked(side: StubSide, pb_utils: ModuleType) -> None:  # rule 3.9.1
    def execute(requests: list[Any]) -> list[Any]:
        requests[0].set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        return [None, pb_utils.InferenceResponse([])]

    side.serve(Model(execute))
    *_, error, _, responses = side.execute(side.entry(1), side.entry(2))
    assert (error, responses) == (None, ["R", ([], None, "")])


# -- inputs that are kept


def test_a_kept_input_holds_the_block_of_its_batch(side: StubSide, pb_utils: ModuleType) -> None:
    kept: list[Any] = []

    def execute(requests: list[Any]) -> list[Any]:
        kept.append(requests[0].inputs()[0])
        return [pb_utils.InferenceResponse([]) for _ in requests]

    side.serve(Model(execute))
    side.execute(side.entry(1, ("X", X)))
    assert side.region.used > 0
    assert kept[0].as_numpy().tolist() == X.tolist()
    del kept[0]
    side.serve(Model(lambda requests: [pb_utils.InferenceResponse([])]))
    side.execute(side.entry(2))
    assert side.region.used == 0


def test_a_failed_execution_keeps_nothing_alive(side: StubSide, pb_utils: ModuleType) -> None:
    """The exception's frames hold the requests; the outcome must not hold the exception."""

    def boom(requests: list[Any]) -> Any:
        raise ValueError("boom")

    side.serve(Model(boom))
    side.execute(side.entry(1, ("X", X)))
    side.serve(Model(lambda requests: [pb_utils.InferenceResponse([])]))
    side.execute(side.entry(2))
    assert side.region.used == 0
