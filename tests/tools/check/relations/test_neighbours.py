"""Requests next to those that fail or are cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.check.bench import Known
from tritonlab.tools.check.noise import AnswerNoise
from tritonlab.tools.check.relations.neighbours import _find_cancelled, judge_cancelled
from tritonlab.tools.check.sample import ModelAnswer, Sample


def test_what_a_cancellation_leaves_behind_is_seen_with_a_long_stream() -> None:
    """The control is a new instance: the one that had the cancellation goes on as it is."""
    state = {"stopped": False}
    output = {"OUT": Tensor.from_numpy(np.int32([1]))}
    short, other, long = (Sample({"N": Tensor.from_numpy(np.int32([number]))}) for number in (1, 2, 3))

    def renew(careful: bool = True) -> None:
        state["stopped"] = False

    def alone(sample: Sample) -> ModelAnswer:
        return ModelAnswer(() if state["stopped"] else (output,))

    def send(samples: Sequence[Sample], cancel: Any) -> None:
        if cancel and samples[0].inputs["N"].numpy()[0] == 3:
            state["stopped"] = True

    bench: Any = SimpleNamespace(
        pool=[Known(sample, ModelAnswer((output,) * count)) for sample, count in ((short, 1), (other, 1), (long, 3))],
        shape=SimpleNamespace(rows=lambda sample: 1),
        scratch=SimpleNamespace(name="m", decoupled=True),
        noise=AnswerNoise(),
        sequences=False,
        renew=renew,
        alone=alone,
        at_once=send,
        over=lambda: False,
    )
    (case,) = _find_cancelled(bench, together=False)
    assert case.samples == (short, long)
    judgement = judge_cancelled(bench, case, True)
    assert judgement is not None
    assert judgement.sentence == "A request gets 0 responses after a request that is cancelled, and 1 response alone."
