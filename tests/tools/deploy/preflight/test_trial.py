"""Models that work in the notebook only are named, and models that work anywhere are not accused, after they were tried
in processes of pre-flight's own. All are tried together; those that are left for `make exam` only there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.serving import write_model
from tests.tools.deploy.preflight.corpus import CONFIG, QUICK, RIGHT, TRAPS, Code, notebook_folder
from tritonlab import Server
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange
from tritonlab.tools.deploy.preflight import trial
from tritonlab.tools.deploy.preflight.finding import Prediction, Preflight
from tritonlab.tools.deploy.preflight.judge import preflight
from tritonlab.tools.deploy.preflight.trial import try_models

# All models are tried in the first test that asks for them.
pytestmark = pytest.mark.timeout(400)

X = Tensor(DataType.FP32, (2,), np.array([1, 2], np.float32))
_IS_EXAM = "TRITONLAB_EXAM" in os.environ
CHOSEN = tuple(TRAPS) if _IS_EXAM else QUICK
#: What depends on the target only: it may have the address, or the program.
_DEPENDS = {"url"}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with notebook_folder(tmp_path_factory.mktemp("author"), slow=_IS_EXAM) as places:
        yield places


@pytest.fixture(scope="module")
def found(places: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Preflight]:
    """Return what pre-flight finds of each model of the corpus."""
    repository = tmp_path_factory.mktemp("models")
    codes = {f"trap_{name}": TRAPS[name] for name in CHOSEN} | {f"right_{name}": RIGHT[name] for name in RIGHT}
    for name, code in codes.items():
        write_model(repository, name, code.source(**places), CONFIG)
    with Server(repository) as server:
        models = [server.model(name) for name in codes]
        cases = [Exchange(InferenceRequest(name, {"X": X}), name="one") for name in codes]
        trials = try_models(models, cases)
        return {model.name: preflight(model, "24.12", trial=trials[model.name]) for model in models}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_trap_is_named(found: dict[str, Preflight], places: dict[str, str], name: str) -> None:
    named = TRAPS[name].named.format(**places)
    findings = [each for each in found[f"trap_{name}"].findings if named in each.sentence]
    assert findings, found[f"trap_{name}"]
    assert any(each.outcome is not Prediction.ATTENTION for each in findings) or name in _DEPENDS, findings


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_model_is_not_accused(found: dict[str, Preflight], name: str) -> None:
    assert found[f"right_{name}"].passed, found[f"right_{name}"]


@pytest.fixture
def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Code], Preflight]]:
    """Return the pre-flight of one model, which is sent a request; the working directory has `a.txt`."""
    (tmp_path / "a.txt").write_text("2")
    monkeypatch.chdir(tmp_path)

    def tried(code: Code) -> Preflight:
        write_model(tmp_path / "models", "m", code.source(), CONFIG)
        with Server(tmp_path / "models", warm=0) as server:
            return preflight(server.model("m"), "24.12", cases=[Exchange(InferenceRequest("m", {"X": X}), name="one")])

    yield tried


def test_without_namespaces_the_verdict_says_what_was_not_seen(
    one: Callable[[Code], Preflight], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "find_hiding", lambda paths: SimpleNamespace(unshare=()))
    found = one(Code("self.k = 2"))
    assert found.passed and not found.is_complete and not found.to_dict()["complete"]
    assert "nothing was found that stops it, and not all that it reads was seen" in str(found)
    assert any(note.startswith("there is no mount namespace here") for note in found.notes)
    held = one(Code("self.fd = ctypes.CDLL(None).open(b'a.txt', 0); self.k = 2"))
    (finding,) = held.findings
    assert "a.txt, by code that is not Python" in finding.sentence and not held.passed


def test_a_model_that_does_not_load_once_more_is_not_called_right(one: Callable[[Code], Preflight]) -> None:
    found = one(Code("os.open('lock', os.O_CREAT | os.O_EXCL); self.k = float(open('a.txt').read())"))
    assert [each.row for each in found.findings] == ["P3"]  # as its first load was recorded
    assert any("could not be loaded once more" in note and "File exists: 'lock'" in note for note in found.notes)
    assert not found.is_complete


def test_reading_that_makes_no_difference_is_named_and_does_not_stop_it(one: Callable[[Code], Preflight]) -> None:
    found = one(Code("try:\n    open('a.txt').read()\nexcept OSError:\n    pass\nself.k = 2"))
    (finding,) = found.findings
    assert "a.txt" in finding.sentence and finding.sentence.endswith("and its answers are the same without")
    assert found.passed and found.is_complete


def test_what_is_missing_has_the_outcome_that_was_seen(one: Callable[[Code], Preflight]) -> None:
    code = "try:\n    self.k = float(open('a.txt').read())\nexcept OSError:\n    self.k = 1"
    assert one(Code(code)).outcome == "differs"
    assert one(Code("self.k = float(open('a.txt').read())")).outcome == "does not load"
    assert one(Code(execute="k = float(open('a.txt').read())")).outcome == "fails"


def test_a_file_to_be_hidden_that_is_gone_meanwhile_does_not_end_it(
    one: Callable[[Code], Preflight], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(job: trial.Job, prefix: Sequence[str] = ()) -> dict[str, trial.Seen]:
        return real(replace(job, hidden=job.hidden and (*job.hidden, str(tmp_path / "gone"))), prefix)

    real = trial._run
    monkeypatch.setattr(trial, "_run", run)
    assert one(Code("self.k = 2")).is_complete


def test_nothing_of_a_trial_is_left(one: Callable[[Code], Preflight], tmp_path: Path) -> None:
    found = one(Code("self.k = np.fromfile('a.txt', 'u1')[0]"))
    assert not found.passed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "models"]
    assert (tmp_path / "a.txt").read_text() == "2"


def test_a_model_whose_process_dies_in_the_trial_is_not_called_right(one: Callable[[Code], Preflight]) -> None:
    found = one(Code("self.k = 2", execute="os._exit(1)"))
    assert not found.is_complete, found
    assert any("its process has ended" in note for note in found.notes), found


def test_a_file_next_to_a_hidden_directory_is_hidden_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[dict[str, Any]] = []

    def differing(some: object, job: trial.Job, unshare: object, **other: Any) -> dict[object, Prediction]:
        runs.append(other)
        return {}

    (tmp_path / "data").mkdir()
    for name in ("data/inside", "data.txt"):
        (tmp_path / name).touch()
    monkeypatch.setattr(trial, "_differing", differing)
    job = trial.Job((), (), {}, "/", tmp_path, hidden=(str(tmp_path / "data"),))
    trial._weigh([], {str(tmp_path / "data" / "inside"), str(tmp_path / "data.txt")}, job, ())
    assert runs[0]["hidden"] == (*job.hidden, str(tmp_path / "data.txt"))
