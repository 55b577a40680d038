"""The verdicts of the checker's exam, on made findings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.tools.check import exam
from tests.tools.check.corpus.fixed import FIXED, write_fixed
from tests.tools.check.corpus.table import RELATIONS, WRONG, WRONG_MODELS, PlantedBug
from tests.tools.check.exam import (
    ACCUSED,
    CLEAN,
    FALSE_CAUSE,
    FOUND,
    MISDESCRIBED,
    MISSED,
    NOT_AGAIN,
    Finding,
    Row,
    judge_bug,
    judge_right,
    summary,
)

BUGS = {bug.name: bug for bug in WRONG}


def rightly(bug: PlantedBug) -> Finding:
    """Return a finding that describes all of a planted bug that must be described."""
    words = {"EMBEDDING", "SIGNAL"} if bug.name in ("mean_pooling", "empty_signal") else set()
    return Finding(bug.relation, f"{' '.join(sorted(words))} differs", min(bug.line_numbers()), 2)


@pytest.mark.parametrize("name", ["mean_pooling", "empty_signal"])
def test_a_finding_that_names_relation_tensor_and_line_is_found(name: str) -> None:
    assert judge_bug(BUGS[name], [rightly(BUGS[name])])[0] == FOUND


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sentence": "something differs"}, "does not name"),
        ({"line": 1}, "line 1 is not the defect's"),
        ({"line": None}, "the line is missing"),
        ({"requests": 3}, "3 requests"),
    ],
)
def test_what_is_left_out_is_misdescribed(change: dict[str, object], why: str) -> None:
    bug = BUGS["empty_signal"]
    verdict, text = judge_bug(bug, [dataclasses.replace(rightly(bug), **change)])
    assert verdict == MISDESCRIBED
    assert why in text


def test_a_finding_of_what_a_bug_does_not_do_is_a_false_cause() -> None:
    bug = BUGS["mean_pooling"]
    other = Finding("resources", "leaks", None, 1)
    assert judge_bug(bug, [rightly(bug), other]) == (FALSE_CAUSE, "resources: leaks")
    assert judge_bug(bug, [rightly(bug), dataclasses.replace(other, counts=False)])[0] == FOUND


def test_a_line_that_nothing_shows_may_be_left_out() -> None:
    bug = BUGS["mean_pooling"]
    assert judge_bug(bug, [dataclasses.replace(rightly(bug), line=None)])[0] == FOUND


def test_a_finding_of_another_relation_is_none() -> None:
    bug = BUGS["mean_pooling"]
    assert judge_bug(bug, [dataclasses.replace(rightly(bug), relation="resources")])[0] == MISSED
    assert judge_bug(bug, []) == (MISSED, "")


def test_one_good_finding_is_enough() -> None:
    bug = BUGS["mean_pooling"]
    assert judge_bug(bug, [Finding("company", "it differs", None, 2), rightly(bug)])[0] == FOUND


def test_a_finding_that_is_not_seen_again_does_not_pass() -> None:
    bug = BUGS["mean_pooling"]
    finding = dataclasses.replace(rightly(bug), again="replay() does not show it")
    assert judge_bug(bug, [finding]) == (NOT_AGAIN, "replay() does not show it")


def test_two_bugs_of_each_relation_can_be_fixed(tmp_path: Path) -> None:
    assert sorted(BUGS[name].relation for name in FIXED) == sorted([*RELATIONS, *RELATIONS])
    for name in FIXED:
        file = write_fixed(name, WRONG_MODELS, tmp_path) / "1" / "model.py"
        compile(file.read_text(), str(file), "exec")
        assert file.read_text() != BUGS[name].source


def test_any_finding_about_a_right_model_is_a_false_alarm() -> None:
    assert judge_right([]) == (CLEAN, "")
    assert judge_right([Finding("life", "it does not end", None, 0)]) == (ACCUSED, "life: it does not end")


def test_the_error_of_a_check_is_the_line_with_the_exception() -> None:
    assert (
        exam.error_of("Traceback\n  File\na.b.LoadError: it fails\n\nAt:\n  model.py(3)\n;\n")
        == "a.b.LoadError: it fails"
    )
    assert exam.error_of("") == "no error text"


def test_the_summary_counts_the_verdicts() -> None:
    assert summary([Row("a", 0, FOUND, 1.0), Row("b", 0, MISSED, 1.0), Row("c", 0, FOUND, 1.0)]) == "2 found, 1 missed"


def test_the_exam_passes_only_if_all_is_found_and_nobody_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = {"mean_pooling": FOUND, "add_sub": CLEAN}
    monkeypatch.setattr(
        exam, "in_a_process", lambda place, entry, *_, **more: Row(entry.name, 0, verdicts[entry.name], 0.0)
    )
    only = ["--only", "mean_pooling", "add_sub", "--seeds", "2"]
    assert exam.main(only) == 0
    verdicts["add_sub"] = ACCUSED
    assert exam.main(only) == 1
    verdicts.update(add_sub=CLEAN, mean_pooling=MISSED)
    assert exam.main(only) == 1


def test_an_interrupted_exam_goes_on_where_its_log_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checked = []

    def check(place: Path, entry: exam.RightModel, seconds: float, seed: int, **more: object) -> Row:
        if len(checked) == 2:
            raise KeyboardInterrupt
        checked.append((entry.name, seed))
        return Row(entry.name, seed, ACCUSED, 1.0, findings=[Finding("life", "it ends", None, 1)])

    monkeypatch.setattr(exam, "in_a_process", check)
    arguments = ["--right", "--only", "add_sub", "counted", "--seeds", "2", "--log", str(tmp_path / "log")]
    with pytest.raises(KeyboardInterrupt):
        exam.main(arguments)
    assert checked == [("add_sub", 0), ("counted", 0)]
    checked.clear()
    assert exam.main(arguments) == 1
    assert checked == [("add_sub", 1), ("counted", 1)]
    rows = exam.read_log(tmp_path / "log")
    assert [(row.model, row.seed) for row in rows] == [(n, s) for s in (0, 1) for n in ("add_sub", "counted")]
    assert rows[0].findings == [Finding("life", "it ends", None, 1)]
