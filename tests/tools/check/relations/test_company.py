"""Controls of what is said to be the cause: as many requests, one after the other or to one instance."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.case import Case
from tritonlab.tools.check.noise import AnswerNoise
from tritonlab.tools.check.relations.company import judge_busy, judge_crowd
from tritonlab.tools.check.sample import ModelAnswer, Sample

SAMPLE = Sample({"X": Tensor.from_numpy(np.float32([[1]]))})


class CountingCopy:
    """A copy that answers otherwise from one request on, of those that its instances have had since their start."""

    name = "m"

    def __init__(self, changes_at: int) -> None:
        self.changes_at = changes_at
        self.had = [0]

    def start(self, **differing: Any) -> None:
        groups = differing.get("instance_group", [{"count": 1}])
        self.had = [0] * groups[0]["count"]

    def fresh(self) -> None:
        self.start()

    def written(self) -> dict[str, Any]:
        return {"instance_group": [{"count": 1}]}

    def answer(self, requests: Sequence[object]) -> list[ModelAnswer]:
        answers = []
        for number, _ in enumerate(requests):
            self.had[number % len(self.had)] += 1
            value = np.float32([[max(self.had) >= self.changes_at]])
            answers.append(ModelAnswer(({"Y": Tensor.from_numpy(value)},)))
        return answers


def bench_of(copy: CountingCopy) -> Any:
    scratch = SimpleNamespace(name=copy.name, start=copy.start, written=copy.written, fresh=copy.fresh)

    def fresh_answer(sample: Sample) -> ModelAnswer:
        copy.fresh()
        return copy.answer([sample])[0]

    return SimpleNamespace(
        scratch=scratch,
        noise=AnswerNoise(),
        fresh_answer=fresh_answer,
        renew=copy.fresh,
        alone=lambda sample: copy.answer([sample])[0],
        at_once=copy.answer,
        over=lambda: False,
    )


@pytest.mark.parametrize("changes_at", [5, 30])
def test_a_model_that_counts_its_requests_is_not_changed_by_those_at_once(changes_at: int) -> None:
    case = Case("company", "crowd", (SAMPLE, SAMPLE), (0, 1) * 4)
    assert judge_crowd(bench_of(CountingCopy(changes_at)), case, True) is None


@pytest.mark.parametrize("changes_at", [5, 100])
def test_a_model_that_counts_its_requests_shares_nothing_with_another_instance(changes_at: int) -> None:
    case = Case("company", "busy", (SAMPLE, SAMPLE), (0, 1) * 8)
    assert judge_busy(bench_of(CountingCopy(changes_at)), case, True) is None
