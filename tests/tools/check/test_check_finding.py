from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given

from tests.hostile import NAMES, nothing_runs, quick
from tritonlab.core.status import InvalidArgumentError
from tritonlab.tools.check.case import Case, Judgement
from tritonlab.tools.check.check_finding import CheckFinding, group_findings
from tritonlab.tools.check.check_result import CheckResult, Tried
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


def checked(*findings: CheckFinding, left_out: str = "") -> CheckResult:
    """Return a result of three relations, of which `left_out` was not tried."""
    tried = [Tried(name, "", "no time" if name == left_out else "") for name in ("edges", "neighbours", "life")]
    return CheckResult("m", findings, tuple(tried), (), seconds=1.0, requests=9, seed=0)


def test_a_check_is_compared_with_a_kept_one_relation_by_relation(tmp_path: Path) -> None:
    edge, life = found("edges", "accident", line=9), found("life", "end")
    kept = checked(edge).save(tmp_path / "kept.json")
    same = checked(found("edges", "died", line=12)).compare(kept)
    assert same.ok and "Check of m: nothing worse than before" in same.text()
    worse = checked(edge, life).compare(kept)
    assert [change for change in worse.changes if change.is_worse] == [("life, findings", "0", "1", True, "")]
    assert not worse.ok and "1 worse" in worse.html() and worse.to_dict()["ok"] is False
    better = checked().compare(kept)
    assert better.ok and better.changes[0] == ("edges, findings", "1", "0", False, "better")
    # a relation that is no longer tried proves nothing; one that is tried for the first time is judged by itself
    silent, first = checked(edge, left_out="life").compare(kept), checked(edge).compare(checked(edge, left_out="life"))
    assert [change for change in silent.changes if change.is_worse] == [("life, findings", "0", "not tried", True, "")]
    assert first.ok and first.changes[2] == ("life, findings", "not tried", "0", False, "")


def test_a_finding_that_another_explains_is_compared_too() -> None:
    edge, beside = found("edges", "accident", line=9), found("neighbours", "failed", (0, 1), line=9)
    together = checked(replace(edge, also=(beside,)))
    assert not together.compare(checked(edge)).ok, "the neighbours are disturbed now"
    assert together.compare(checked(edge, beside)).ok, "the same two findings"


def test_a_relation_that_the_later_check_lacks_is_worse() -> None:
    later = replace(checked(), tried=checked().tried[:2])
    assert [change for change in later.compare(checked()).changes if change.is_worse] == [
        ("life, findings", "0", "not tried", True, "")
    ]


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"tool": "load_test", "model": "m"}', '{"model": "m"}'])
def test_what_is_no_saved_check_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "kept.json").write_text(text)
    with pytest.raises(InvalidArgumentError, match="no saved result"):
        checked().compare(tmp_path / "kept.json")
