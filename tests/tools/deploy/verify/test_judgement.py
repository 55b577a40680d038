from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import Code
from tritonlab.exchanges.exchange import Exchange
from tritonlab.tools.deploy.verify.judgement import AGAIN, ModelJudgement, judge
from tritonlab.tools.deploy.verify.replayed_requests import ALONE, TOGETHER, ModelAnswers

from .test_differences import PLACES, answer, error


def at(place: str) -> Exchange:
    return error(Code.INTERNAL, f"At:\n  {place}/m/1/model.py(4): execute")


MISSING = error(Code.INTERNAL, "no such file: 'table.txt'")


def case_of(kept: Exchange | None, name: str = "one") -> Exchange:
    """Return a request that the notebook has answered so; None if that is not kept."""
    if kept is None:
        return Exchange(InferenceRequest("m", {}), name=name, unanswered="it was too large to be kept")
    return replace(kept, name=name)


def answers(*alone: Exchange, together: Sequence[Exchange] = (), again: Sequence[Exchange] = ()) -> ModelAnswers:
    found: dict[tuple[str, str], list[Exchange]] = {(ALONE, "one"): [*alone]}
    found |= {(way, "one"): [*each] for way, each in ((TOGETHER, together), (AGAIN, again)) if each}
    return ModelAnswers("m", answers=found)


def judged(notebook: Exchange | None, here: ModelAnswers, there: ModelAnswers, **options: Any) -> ModelJudgement:
    return judge(here, there, [case_of(notebook)], release="2.51", places=PLACES, **options)


@pytest.mark.parametrize(
    ("notebook", "here", "there", "symbol", "passed", "text"),
    [
        (answer(1), answer(1), answer(1), "=", True, ""),
        (answer(1), answer(1), answer(1.0000001), "~", True, "within tolerance"),
        # equal errors of a request that was answered in the notebook
        (answer(7), MISSING, MISSING, "D", False, "our server on the copy does what Triton does"),
        (answer(7), answer(7), MISSING, "D", False, "our server on the copy answers as the notebook"),
        (answer(7), MISSING, answer(7), "D", False, "Triton answers as the notebook"),
        (answer(7), answer(1), answer(1), "D", False, "7.0 in the notebook, 1.0 in Triton; our server"),
        (answer(7), answer(7), answer(1), "D", False, "our server on the copy answers as the notebook"),
        (answer(7), answer(2), answer(1), "D", False, "our server on the copy does neither"),
        (answer(7), answer(1), answer(7), "D", False, "1.0 in our server on the copy; Triton answers as the notebook"),
        # of one that failed there, and is the only one
        (MISSING, MISSING, MISSING, "?", False, "failed in the notebook, too"),
        (MISSING, answer(1), answer(1), "D", False, "in the notebook: "),
        (at("/tmp/x"), at(PLACES[0]), at(PLACES[1]), "?", False, "failed in the notebook, too"),
        # its answer is not kept
        (None, answer(1), answer(1), "?", False, "it was too large to be kept"),
        (None, MISSING, MISSING, "?", False, "compared with our server alone"),
        (None, answer(1), answer(2), "D", False, "1.0 in our server on the copy, 2.0 in Triton"),
    ],
)
def test_the_notebooks_answer_is_what_others_are_compared_with(
    notebook: Exchange | None, here: Exchange, there: Exchange, symbol: str, passed: bool, text: str
) -> None:
    found = judged(notebook, answers(here), answers(there))
    assert (found.symbol, found.passed) == (symbol, passed), found.findings
    assert not text or any(text in each.text for each in found.findings), found.findings


def test_errors_beside_an_answer_are_counted() -> None:
    cases = [case_of(answer(1)), case_of(MISSING, "two")]
    both = answers(answer(1))
    both.answers[ALONE, "two"] = [MISSING]
    found = judge(both, both, cases, release="2.51", places=PLACES)
    assert found.passed and (found.failed, found.sent) == (1, 2)
    assert [each.notebook for each in found.requests] == ["answered", "failed"]


@pytest.mark.parametrize(
    "more", [{"together": [answer(3), answer(4)]}, {"again": [answer(5)]}], ids=["in one server", "from start to start"]
)
def test_answers_that_vary_are_neither_equal_nor_different(more: Mapping[str, Any]) -> None:
    here = answers(answer(2), **more)
    there = answers(answer(6), together=[answer(7), answer(8)] if "together" in more else ())
    found = judged(answer(1), here, there)
    assert (found.symbol, found.passed) == ("?", False), found.findings
    assert "vary from one time to the next" in found.findings[0].text and len(found.findings) == 1
    # an error is not a value
    assert judged(answer(1), here, answers(MISSING, together=[MISSING, MISSING])).symbol == "D"
    # if only Triton's vary, that is a difference
    steady = answers(answer(1), together=[answer(1)])
    assert judged(answer(1), steady, answers(answer(2), together=[answer(3)])).symbol == "D"


def test_a_model_without_a_request_is_loaded_and_no_more() -> None:
    def without(**options: Any) -> ModelJudgement:
        return judge(ModelAnswers("m"), ModelAnswers("m"), [], release="2.51", places=PLACES, **options)

    assert (without().symbol, without().passed) == ("0", False)
    step = without(through="whole")
    assert (step.symbol, step.passed, step.through) == ("=", True, "whole")


def test_nothing_is_equal_while_preflight_names_what_the_model_reads() -> None:
    found = judged(answer(1), answers(answer(1)), answers(answer(1)), open_findings=["it opens /x/scale.txt"])
    assert (found.symbol, found.passed) == ("?", False)
    assert "it opens /x/scale.txt; while this is open, nothing is called equal" in found.findings[0].text


def test_a_model_is_judged_by_its_load_and_its_documents() -> None:
    good = answers(answer(1))

    def verdict(here: ModelAnswers, there: ModelAnswers) -> tuple[str, bool]:
        found = judged(answer(1), here, there)
        return found.symbol, found.passed

    assert verdict(good, good) == ("=", True)
    assert verdict(good, ModelAnswers("m", problem="no module")) == ("X", False)
    assert verdict(ModelAnswers("m", problem="no"), ModelAnswers("m", problem="no")) == ("X", False)
    assert verdict(ModelAnswers("m", problem="no"), good) == ("D", False)
    assert verdict(good, ModelAnswers("m", answers={})) == ("D", False)  # the server died on the way
    failed = judged(answer(1), good, ModelAnswers("m", problem="Internal: no\n;"))
    assert failed.findings[0].text == "Internal: no; it loads here"
    assert verdict(good, ModelAnswers("m", answers=good.answers, config={"max_batch_size": 4})) == ("D", False)


def test_a_sequence_that_is_not_kept_whole_is_not_proved() -> None:
    cut = Exchange(InferenceRequest("m", {}, correlation_id=7), name="cut", unsent="of sequence 7 only the first 2")
    found = judge(answers(answer(1)), answers(answer(1)), [case_of(answer(1)), cut], release="2.51", places=PLACES)
    assert (found.symbol, found.passed) == ("?", False)
    assert [(each.sent, each.inputs, each.symbol) for each in found.requests][1] == (0, "not kept", "?")
    assert [each.text for each in found.findings] == [cut.unsent]
