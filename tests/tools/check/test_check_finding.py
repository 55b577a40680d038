from __future__ import annotations

from pathlib import Path
from unittest import mock

from hypothesis import given

from tests.hostile import NAMES, nothing_runs, quick
from tritonlab.tools.check.case import Case, Judgement
from tritonlab.tools.check.check_finding import CheckFinding, group_findings
from tritonlab.tools.check.sample import ModelAnswer


@quick
@given(NAMES, NAMES)
def test_a_test_of_a_finding_has_the_names(name: str, sentence: str) -> None:
    case = Case("alone", "again", samples=(), order=())
    finding = CheckFinding(name, "alone", sentence, case, mock.Mock(spec=Judgement), Path(f"/models/{name}"))
    made = finding.to_pytest()
    with nothing_runs(), mock.patch("tritonlab.testing.check_case") as check_case:
        space = {"__file__": f"/tests/{made.name}"}
        exec(compile(made.text.encode(), made.name, "exec"), space)
        (test,) = [value for key, value in space.items() if key.startswith("test_")]
        test()
    assert check_case.call_args.args == (Path(f"/tests/{made.name}").with_suffix(".case"), str(finding.directory))
    assert "/" not in made.name


def found(
    relation: str, kind: str, order: tuple[int, ...] = (0,), line: int | None = None, got: ModelAnswer | None = None
) -> CheckFinding:
    place = ("model.py", line) if line is not None else None
    case = Case(relation, kind, samples=(), order=order)
    return CheckFinding("m", relation, kind, case, Judgement(kind, got=got, place=place), Path("/models/m"))


def test_what_a_smaller_finding_explains_is_below_it() -> None:
    beside, accident = found("neighbours", "failed", (0, 1), line=9), found("edges", "accident", line=9)
    leak = found("resources", "answered", line=20)
    (first, second) = group_findings([beside, accident, leak])
    assert (first.relation, [one.relation for one in first.also]) == ("edges", ["neighbours"])
    assert (second.relation, second.also) == ("resources", ())
    assert "also     neighbours: failed" in first.lines()[-1] and first.to_dict()["also"][0]["kind"] == "failed"


def test_what_a_model_keeps_explains_what_differs_after_others() -> None:
    findings = [found("life", "reload"), found("edges", "poison", (1, 0)), found("company", "state", (1, 0))]
    (head,) = group_findings(findings)
    assert (head.case.kind, [one.case.kind for one in head.also]) == ("state", ["reload", "poison"])


def test_an_exception_explains_what_it_leaves_behind() -> None:
    leak = found("resources", "refused", line=20)
    beside, after = found("neighbours", "failed", (0, 1), line=9), found("neighbours", "after", (1, 0), line=9)
    (head,) = group_findings([leak, after, beside])
    assert (head.case.kind, {one.case.kind for one in head.also}) == ("failed", {"after", "refused"})
    other_line = found("neighbours", "after", (1, 0), line=12)
    assert [one.case.kind for one in group_findings([leak, other_line, beside])] == ["after", "failed"]
    assert len(group_findings([leak, beside])) == 2, "a leak of errors is one by itself"


def test_a_broken_rule_explains_whoever_breaks_it() -> None:
    refused = ModelAnswer(error="out of memory")
    dropped = ModelAnswer(error="Failed to process the request(s) for model 'm': dropped without the final flag")
    many, batch = found("streams", "many", (0, 1), got=dropped), found("company", "batch", (0, 1), got=refused)
    (head, other) = group_findings([found("answers", "batch", (0, 1), got=dropped), many, batch])
    assert (head.also, other) == ((many,), batch)


def test_findings_of_other_lines_and_kinds_are_counted_each() -> None:
    findings = [found("edges", "accident", line=9), found("edges", "died", line=12), found("life", "end")]
    assert group_findings(findings) == tuple(findings)


def test_findings_that_explain_each_other_are_all_reported() -> None:
    findings = [found("edges", "accident"), found("resources", "answered"), found("neighbours", "failed")]
    with mock.patch("tritonlab.tools.check.check_finding._explains", lambda one, other: True):
        heads = group_findings(findings)
    assert {each.sentence for head in heads for each in (head, *head.also)} == {"accident", "answered", "failed"}
