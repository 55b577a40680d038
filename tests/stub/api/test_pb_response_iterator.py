from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stub.fake_bridge import FakeCall, refusal
from tritonlab.stub._pb_stub.api.errors import TritonModelException
from tritonlab.stub._pb_stub.api.infer_response import InferenceResponse
from tritonlab.stub._pb_stub.api.pb_response_iterator import ResponseIterator

A, B, C = InferenceResponse(), InferenceResponse(), InferenceResponse()


class UnknownEnd:
    """A call that only notices its end at the next response after the last."""

    def __init__(self, responses: list[InferenceResponse]) -> None:
        self._responses = iter(responses)

    def __iter__(self) -> Iterator[InferenceResponse]:
        return self

    def __next__(self) -> InferenceResponse:
        return next(self._responses)


@pytest.mark.rule("1.10.2", "1.10.3")
def test_iterating_again_replays() -> None:
    iterator = ResponseIterator._from_call(FakeCall([A, B, C]))
    assert next(iterator) is A
    assert list(iterator) == [B, C]
    assert list(iterator) == [A, B, C]
    with pytest.raises(StopIteration) as end:
        next(iterator)
    assert end.value.args == ("Iteration is done for the responses.",)


@pytest.mark.rule("1.10.3")
def test_a_new_loop_starts_over_as_soon_as_the_last_response_came() -> None:
    iterator = ResponseIterator._from_call(FakeCall([A, B]))
    assert [next(iterator), next(iterator)] == [A, B]
    assert list(iterator) == [A, B]


@pytest.mark.rule("1.10.3")
def test_a_replay_is_not_started_over_in_its_middle() -> None:
    iterator = ResponseIterator._from_call(FakeCall([A, B, C]))
    assert list(iterator) == [A, B, C]
    assert next(iter(iterator)) is A
    assert list(iterator) == [B, C]


def test_a_call_that_does_not_know_its_end() -> None:
    iterator = ResponseIterator._from_call(UnknownEnd([A]))
    assert [list(iterator), list(iterator)] == [[A], [A]]


@pytest.mark.rule("1.10.6")
def test_cancel_reaches_an_unfinished_call_only() -> None:
    unfinished, finished = FakeCall([A]), FakeCall([A])
    ResponseIterator._from_call(unfinished).cancel()
    iterator = ResponseIterator._from_call(finished)
    list(iterator)
    iterator.cancel()
    assert (unfinished.cancelled, finished.cancelled) == (True, False)


def test_a_lost_server_is_an_exception() -> None:
    iterator = ResponseIterator._from_call(FakeCall([A, refusal("gone")]))
    assert next(iterator) is A
    with pytest.raises(TritonModelException, match=r"^gone$"):
        next(iterator)


@pytest.mark.rule("1.10.1")
def test_only_exec_makes_one() -> None:
    with pytest.raises(TypeError, match="No constructor defined!"):
        ResponseIterator()
