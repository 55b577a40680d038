from __future__ import annotations

from pathlib import Path

import pytest

from tests.again import MOST, run

TESTS = """
from pathlib import Path
import pytest

def first(name):
    been = Path(__file__).with_name(name)
    was = been.exists()
    been.touch()
    return not was

def test_good(): pass
def test_racing(): assert not first("racing")
def test_wrong(): assert False
"""


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of the time
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    file = tmp_path / "test_it.py"
    file.write_text(TESTS)
    return file.name


def outcome(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Return the exit status, and what is printed as racing."""
    status = run(arguments)
    printed = capfd.readouterr().out
    return status, printed.partition("RACING, passed when run again alone; fix them:\n")[2].split()


def test_what_passes_alone_is_named(tests: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert outcome(capfd, tests, "-k", "good or racing") == (0, ["test_it.py::test_racing"])


def test_what_fails_again_has_failed(tests: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert outcome(capfd, tests) == (1, ["test_it.py::test_racing"])
    assert outcome(capfd, tests, "-k", "wrong") == (1, [])


def test_failures_in_many_files_are_no_accident(tests: str, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(MOST):
        Path(f"test_{number}.py").write_text("def test_wrong(): assert False")
    assert outcome(capfd, ".", "-k", "racing or wrong and not test_it") == (1, [])
    assert run([tests, "-k", "racing"]) == 0  # it had one run only: this is its second


def test_a_suite_that_cannot_be_run_is_not_run_again(tests: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path(tests).write_text("import nothing_of_this_name\n")
    assert outcome(capfd, tests) == (2, [])
    assert outcome(capfd, tests, "--nonsense") == (4, [])


def test_a_test_whose_end_hangs_ends_the_run(
    tests: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.again.HANGS", 1)
    Path(tests).write_text("import threading\n\ndef test_hangs(): threading.Event().wait()\n")
    assert run([tests]) != 0
    assert "Timeout (0:00:01)!" in capfd.readouterr().err
