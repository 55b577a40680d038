from __future__ import annotations

import pytest

from tritonlab.export.verify.judgement import ModelJudgement
from tritonlab.export.verify.verdict import ReleaseVerdict


@pytest.mark.parametrize(
    ("requests", "verdict"),
    [
        ((6,), "1 model, 6 requests: equal"),
        ((1, 0), "2 models, 1 request: equal"),
        ((0,), "1 model loaded, with equal config and metadata; no request was sent"),
        ((0, 0), "2 models loaded, with equal config and metadata; no request was sent"),
        ((), "not verified: there are no models"),
    ],
)
def test_the_verdict_counts_as_one_speaks(requests: tuple[int, ...], verdict: str) -> None:
    models = tuple(ModelJudgement(f"m{number}", count, ()) for number, count in enumerate(requests))
    assert ReleaseVerdict("2.51", "wheel", models=models).verdict == verdict
