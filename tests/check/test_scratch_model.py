"""The wait for the answers of a copy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tritonlab.check.scratch_model import _SentRequest, _wait
from tritonlab.core.inference.infer_request import InferenceRequest


class Done:
    """An event that is waited for in vain as often as there are `vain`, each of which is called meanwhile."""

    def __init__(self, *vain: Callable[[], None]) -> None:
        self.vain = list(vain)

    def wait(self, timeout: float) -> bool:
        if self.vain:
            self.vain.pop(0)()
            return False
        return True


def test_answers_that_come_one_by_one_are_waited_for() -> None:
    first, second = (_SentRequest(InferenceRequest("m", {}), time.monotonic()) for _ in range(2))

    def end_second() -> None:
        second.ended_at = time.monotonic()

    done: Any = Done(end_second)
    first.done, second.done = done, Done()  # type: ignore[assignment]
    _wait([first, second], 2.0)
    assert not done.vain


def test_no_more_is_waited_for_when_none_has_come() -> None:
    one, other = (_SentRequest(InferenceRequest("m", {}), time.monotonic()) for _ in range(2))
    event: Any = Done(lambda: None, lambda: None)
    one.done, other.done = Done(lambda: None), event  # type: ignore[assignment]
    _wait([one, other], 2.0)
    assert len(event.vain) == 2
