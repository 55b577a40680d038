from __future__ import annotations

from pathlib import Path
from unittest import mock

from hypothesis import given

from tests.hostile import NAMES, nothing_runs, quick
from tritonlab.check.case import Case, Judgement
from tritonlab.check.check_finding import CheckFinding


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
