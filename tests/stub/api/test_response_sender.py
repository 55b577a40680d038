from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.stub.fake_bridge import FakeBridge, refusal
from tritonlab.stub._pb_stub.api.errors import TritonModelException
from tritonlab.stub._pb_stub.api.infer_response import InferenceResponse
from tritonlab.stub._pb_stub.api.response_sender import NO_HANDLE, InferenceResponseSender

RESPONSE = InferenceResponse()
UNSUPPORTED = "Unable to send response. Unsupported flag provided."
NOTHING = "Inference Response object must be provided when the response flags is set to zero."
SECOND = "Unable to send response. Non-decoupled model cannot send more than one response."
EARLY = "Unable to send response. Non-decoupled model cannot send complete final before sending a response."
CLOSED = "Unable to send response. Response sender has been closed."
OWN = "Unable to send response. Response sender has no reference to the decoupled state of the model."

FINAL = (None, 1)
LAST = (RESPONSE, 1)
ONE = (RESPONSE, 0)


def outcome(sender: InferenceResponseSender, arguments: tuple[Any, ...]) -> str:
    try:
        sender.send(*arguments)
    except TritonModelException as error:
        return str(error)
    return "sent"


@pytest.mark.rule("1.9.2", "1.9.3", "1.9.4")
@pytest.mark.parametrize(
    ("decoupled", "sends", "outcomes"),
    [
        (False, [ONE, FINAL], ["sent", "sent"]),
        (False, [LAST], ["sent"]),
        (False, [ONE, ONE, FINAL], ["sent", SECOND, "sent"]),
        (False, [FINAL, ONE], [EARLY, "sent"]),
        # in default mode "more than one" goes before "closed"
        (False, [LAST, LAST, FINAL], ["sent", SECOND, CLOSED]),
        (True, [ONE, ONE, LAST, ONE], ["sent", "sent", "sent", CLOSED]),
        (True, [FINAL, FINAL], ["sent", CLOSED]),
        (True, [(RESPONSE, 2), (None, 3), (None, 0), (None, 1)], [UNSUPPORTED, UNSUPPORTED, NOTHING, "sent"]),
    ],
)
def test_what_may_be_sent(
    fake_bridge: FakeBridge, decoupled: bool, sends: list[tuple[Any, ...]], outcomes: list[str]
) -> None:
    sender = InferenceResponseSender._from_handle(4, decoupled)
    assert [outcome(sender, arguments) for arguments in sends] == outcomes
    allowed = [(4, *arguments) for arguments, out in zip(sends, outcomes, strict=True) if out == "sent"]
    assert fake_bridge.sent == allowed


@pytest.mark.rule("1.9.2")
@pytest.mark.parametrize(
    "arguments", [(1,), ([RESPONSE],), (RESPONSE, "1"), (RESPONSE, -1), (RESPONSE, 1.0), (RESPONSE, None)]
)
def test_arguments_of_other_types(fake_bridge: FakeBridge, arguments: tuple[Any, ...]) -> None:
    sender = InferenceResponseSender._from_handle(4, True)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        sender.send(*arguments)
    assert outcome(sender, LAST) == "sent"


@pytest.mark.rule("1.9.2", "1.7.9")
def test_a_request_of_the_models_own_has_nobody_to_answer(fake_bridge: FakeBridge) -> None:
    sender = InferenceResponseSender._from_handle(NO_HANDLE, False)
    assert [outcome(sender, a) for a in ((None, 0), (RESPONSE, 2), ONE, FINAL)] == [NOTHING, UNSUPPORTED, OWN, OWN]
    with pytest.raises(TritonModelException, match="Cannot determine request cancellation"):
        sender.is_cancelled()


@pytest.mark.rule("1.9.6")
def test_a_failure_on_the_way_is_raised(fake_bridge: FakeBridge) -> None:
    fake_bridge.answers["RESPONSE"] = refusal("Failed to increase the shared memory pool")
    assert outcome(InferenceResponseSender._from_handle(4, False), ONE) == "Failed to increase the shared memory pool"


@pytest.mark.rule("1.9.1")
def test_the_server_knows_of_cancellation(fake_bridge: FakeBridge) -> None:
    sender = InferenceResponseSender._from_handle(4, True)
    assert not sender.is_cancelled()
    fake_bridge.cancelled.add(4)
    assert sender.is_cancelled()


@pytest.mark.rule("1.1.4")
def test_only_a_request_makes_one() -> None:
    with pytest.raises(TypeError, match=r"^c_python_backend_utils\.InferenceResponseSender: No constructor defined!$"):
        InferenceResponseSender()


@pytest.mark.rule("1.9.1")
def test_nothing_overtakes_a_response_that_is_on_its_way(fake_bridge: FakeBridge) -> None:
    """The final flag of another thread waits until the response before it has left."""
    entered, release = threading.Event(), threading.Event()
    plain = fake_bridge.send_response

    def slow(handle: int, response: InferenceResponse | None, flags: int) -> None:
        if flags == 0:
            entered.set()
            assert release.wait(60)
        plain(handle, response, flags)

    fake_bridge.send_response = slow  # type: ignore[method-assign]
    sender = InferenceResponseSender._from_handle(4, True)
    first = threading.Thread(target=sender.send, args=ONE)
    first.start()
    assert entered.wait(60)
    second = threading.Thread(target=sender.send, args=FINAL)
    second.start()
    release.set()
    first.join(60)
    second.join(60)
    assert [flags for _, _, flags in fake_bridge.sent] == [0, 1]


@pytest.mark.rule("3.7.2")
@pytest.mark.parametrize(
    ("sends", "answered"),
    [([], [False]), ([ONE], [True]), ([ONE, FINAL], []), ([LAST], []), ([LAST, FINAL], [])],
    ids=["nothing", "a response", "response and final", "both at once", "final twice"],
)
def test_a_sender_that_goes_without_its_final_flag_says_so(
    fake_bridge: FakeBridge, sends: list[tuple[Any, ...]], answered: list[bool]
) -> None:
    sender = InferenceResponseSender._from_handle(77, True)  # those of other tests may be collected meanwhile
    for arguments in sends:
        outcome(sender, arguments)
    assert (77, False) not in fake_bridge.dropped
    del sender
    assert [after for handle, after in fake_bridge.dropped if handle == 77] == answered


def test_a_sender_of_a_request_that_the_author_built_owes_nothing(fake_bridge: FakeBridge) -> None:
    sender = InferenceResponseSender._from_handle(NO_HANDLE, True)
    del sender
    assert NO_HANDLE not in [handle for handle, _ in fake_bridge.dropped]


def test_a_final_that_could_not_be_sent_leaves_the_sender_open(fake_bridge: FakeBridge) -> None:
    sender = InferenceResponseSender._from_handle(4, False)
    fake_bridge.answers["RESPONSE"] = refusal("no room")
    assert outcome(sender, LAST) == "no room"
    del fake_bridge.answers["RESPONSE"]
    assert outcome(sender, LAST) == "sent"
