from __future__ import annotations

import pytest

from tritonlab.export.verify.judgement import Difference, ModelJudgement
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


@pytest.mark.parametrize(
    ("symbols", "verdict"),
    [
        ("=?", "1 of 2 models could not be verified: m1; nothing else differs"),
        ("D?", "1 of 2 models differ: m0; 1 of 2 models could not be verified: m1"),
    ],
)
def test_a_model_that_the_judge_cannot_run_does_not_differ_nor_pass(symbols: str, verdict: str) -> None:
    found = [[Difference(symbol, "load", "")] if symbol != "=" else [] for symbol in symbols]
    models = tuple(ModelJudgement(f"m{number}", 1, tuple(each)) for number, each in enumerate(found))
    judged = ReleaseVerdict("2.51", "wheel", models=models)
    assert (judged.verdict, judged.passed) == (verdict, False)
