from __future__ import annotations

import numpy as np
import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import CancelledError, InvalidArgumentError, TritonError
from tritonlab.exchanges.exchange import Arrival, Exchange
from tritonlab.notebook.views.playground.history import MOST, MOST_BYTES, History


def outcome(size: int = 1, error: TritonError | None = None) -> Exchange:
    tensor = Tensor.from_numpy(np.zeros(size, np.uint8))
    arrivals = () if error else (Arrival(InferenceResponse(outputs={"OUT": tensor}), 2_000_000),)
    return Exchange(InferenceRequest("m", {"IN": tensor}), arrivals, error)


@pytest.fixture
def calls() -> list[tuple[str, Exchange]]:
    return []


@pytest.fixture
def history(calls: list[tuple[str, Exchange]]) -> History:
    return History(lambda o: calls.append(("show", o)), lambda o: calls.append(("replay", o)), now=lambda: 0.0)


def test_the_newest_comes_first_and_the_oldest_goes(history: History) -> None:
    for _ in range(MOST + 3):
        history.add(outcome())
    assert len(history.outcomes) == MOST
    labels = [text for text, _ in history.choice.options]
    assert labels[0] == "History" and labels[1].startswith(f"{MOST + 3}: ") and labels[1].endswith("answered in 2 ms")
    assert history.choice.label == "History" and history.button.disabled


def test_each_row_ends_with_its_outcome(history: History) -> None:
    history.add(outcome(error=InvalidArgumentError("no")))
    history.add(outcome(error=CancelledError("gone")))
    assert [text.split()[-1] for text, _ in history.outcomes] == ["cancelled", "failed"]


def test_one_is_kept_once_and_a_large_one_not_at_all(history: History) -> None:
    one = outcome()
    history.add(one)
    history.add(one)
    history.add(outcome(MOST_BYTES))
    assert len(history.outcomes) == 1


def test_the_chosen_one_is_displayed_and_replayed(history: History, calls: list[tuple[str, Exchange]]) -> None:
    first, second = outcome(), outcome()
    history.add(first)
    history.add(second)
    history.button.click()
    assert calls == []
    history.choice.value = 1
    history.button.click()
    assert calls == [("show", first), ("replay", first)]
