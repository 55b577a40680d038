"""The load under which what a model holds is measured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tritonlab.check.bench import Known
from tritonlab.check.relations.resources import RepeatedLoad
from tritonlab.check.sample import ModelAnswer, Sample
from tritonlab.core.inference.tensor import Tensor


def test_a_replay_of_errors_asks_with_one_of_them_when_nothing_else_is_known() -> None:
    refused, answered = (Sample({"X": Tensor.from_numpy(np.float32([value]))}) for value in (1, 2))
    bench: Any = SimpleNamespace(pool=[], refused=[Known(refused, ModelAnswer(error="no"))])
    assert RepeatedLoad(bench, "refused", refused).plain is refused
    bench.pool = [Known(answered, ModelAnswer())]
    assert RepeatedLoad(bench, "refused", refused).plain is answered
