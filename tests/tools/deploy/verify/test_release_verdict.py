from __future__ import annotations

import pytest

from tritonlab.tools.deploy.verify.differences import Difference
from tritonlab.tools.deploy.verify.judgement import NO_REQUEST, ModelJudgement, SentRequest
from tritonlab.tools.deploy.verify.page import body_of
from tritonlab.tools.deploy.verify.release_verdict import ReleaseVerdict


def model(number: int, *, requests: int = 1, failed: int = 0, symbol: str = "=") -> ModelJudgement:
    kinds = ["failed"] * failed + ["answered"] * (requests - failed)
    sent = tuple(SentRequest(f"r{n}", "golden", "", kind, 6, "=", f"{n}") for n, kind in enumerate(kinds))
    found = symbol if requests else "0"
    return ModelJudgement(f"m{number}", (Difference(found, "load", ""),) if found != "=" else (), sent)


def judged(*models: ModelJudgement) -> ReleaseVerdict:
    return ReleaseVerdict("2.51", "wheel", models=models)


@pytest.mark.parametrize(
    ("requests", "verdict"),
    [
        ((6,), "1 model, 6 requests: equal"),
        ((1, 2), "2 models, 3 requests: equal"),
        ((1, 0), "no request was sent to 1 of 2 models: m1; nothing else differs"),
        ((0,), "1 model loaded; no request was sent"),
        ((0, 0), "2 models loaded; no request was sent"),
        ((), "not verified: there are no models"),
    ],
)
def test_the_verdict_counts_requests_and_passes_only_with_some(requests: tuple[int, ...], verdict: str) -> None:
    found = judged(*(model(number, requests=count) for number, count in enumerate(requests)))
    assert (found.verdict, found.passed) == (verdict, bool(requests) and all(requests))


def test_errors_that_the_notebook_had_too_are_counted() -> None:
    assert judged(model(0, requests=3, failed=1)).verdict == (
        "1 model, 3 requests: equal, 1 of them in an error that the notebook had, too"
    )


@pytest.mark.parametrize(
    ("symbols", "verdict"),
    [
        ("=?", "1 of 2 models could not be verified: m1; nothing else differs"),
        ("D?", "1 of 2 models differ: m0; 1 of 2 models could not be verified: m1"),
    ],
)
def test_a_model_that_the_judge_cannot_run_does_not_differ_nor_pass(symbols: str, verdict: str) -> None:
    found = judged(*(model(number, symbol=symbol) for number, symbol in enumerate(symbols)))
    assert (found.verdict, found.passed) == (verdict, False)


def test_what_differed_before_stays_open() -> None:
    found = ReleaseVerdict("2.51", "wheel", models=(model(0),), still_open=("m0 differed on 2026-11-28 for r7",))
    assert not found.passed and found.verdict == "nothing else differs; m0 differed on 2026-11-28 for r7"


def test_the_page_shows_commands_as_code() -> None:
    unproved = ModelJudgement("m0", (Difference("0", "load", NO_REQUEST),))
    page = body_of([judged(unproved)], ["`tritonlab tap` keeps requests"], [])
    assert "<li><code>tritonlab tap</code> keeps" in page and "<code>%triton golden add</code>" in page
    assert "`" not in page
