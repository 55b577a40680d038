"""Processes that answer otherwise because their hashes of texts are others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.bench import Known
from tritonlab.tools.check.noise import AnswerNoise
from tritonlab.tools.check.relations.life import _find_order_of_hashes, judge_hashes
from tritonlab.tools.check.sample import ModelAnswer, Sample


@pytest.mark.parametrize(
    ("answer", "is_found"),
    [
        (lambda seed, starts: seed, True),
        (lambda seed, starts: 5, False),
        (lambda seed, starts: starts, False),  # the seed is not the cause
    ],
)
def test_an_order_of_a_set_in_the_answer(answer: Callable[[int, int], int], is_found: bool) -> None:
    sample = Sample({"X": Tensor.from_numpy(np.int32([[1]]))})
    seeds: list[int] = []

    @contextmanager
    def with_hash_seeds() -> Iterator[Callable[[int], None]]:
        yield seeds.append

    def alone(sample: Sample) -> ModelAnswer:
        return ModelAnswer(({"Y": Tensor.from_numpy(np.int32([[answer(seeds[-1], len(seeds))]]))},))

    bench: Any = SimpleNamespace(
        pool=[Known(sample, ModelAnswer())],
        scratch=SimpleNamespace(with_hash_seeds=with_hash_seeds, is_hashable=True),
        noise=AnswerNoise(),
        alone=alone,
    )
    judgements = [judge_hashes(bench, case, True) for case in _find_order_of_hashes(bench)]
    sentences = [one.sentence for one in judgements if one is not None]
    assert [one.partition(". ")[0] for one in sentences] == [
        "Y[0, 0] is 2 in a process with PYTHONHASHSEED=2, and 1 in a process with PYTHONHASHSEED=1"
    ] * is_found
