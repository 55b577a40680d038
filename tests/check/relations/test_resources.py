"""The load under which what a model holds is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.check.bench import Known
from tritonlab.check.case import Case
from tritonlab.check.relations import resources
from tritonlab.check.relations.resources import Broken, RepeatedLoad, _bytes, _failing
from tritonlab.check.sample import ModelAnswer, Sample
from tritonlab.core.inference.tensor import Tensor


def test_a_replay_of_errors_asks_with_one_of_them_when_nothing_else_is_known() -> None:
    refused, answered = (Sample({"X": Tensor.from_numpy(np.float32([value]))}) for value in (1, 2))
    bench: Any = SimpleNamespace(pool=[], refused=[Known(refused, ModelAnswer(error="no"))])
    assert RepeatedLoad(bench, "refused", refused).plain is refused
    bench.pool = [Known(answered, ModelAnswer())]
    assert RepeatedLoad(bench, "refused", refused).plain is answered


@pytest.mark.parametrize("answers_again", [True, False])
def test_a_model_that_refuses_for_a_while_is_no_finding(monkeypatch: pytest.MonkeyPatch, answers_again: bool) -> None:
    monkeypatch.setattr(resources, "_PAUSE", 0)
    sample, refused = Sample({}), ModelAnswer(error="too many requests")
    bench: Any = SimpleNamespace(
        need=lambda seconds: None, alone=lambda one: ModelAnswer() if answers_again else refused, notes=[],
        shape=SimpleNamespace(rows=lambda one: 1, most_rows=8),
    )
    load: Any = SimpleNamespace(sent=200, is_varied=lambda one: False)
    found = _failing(bench, Case("resources", "answered", (sample,)), load, Broken(sample, refused))
    assert (found is None) == answers_again
    assert bench.notes == (
        ["After 200 requests the model refuses more for a while: too many requests."] * answers_again
    )


@pytest.mark.parametrize(
    ("amount", "text"),
    [(163, "160 bytes"), (160_063, "160 kB"), (32_421, "32 kB"), (1_640_000, "1.6 MB"), (3.2, "3.2 bytes")],
)
def test_bytes_have_two_digits(amount: float, text: str) -> None:
    assert _bytes(amount) == text
