"""`%triton export` with what it writes beside the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models import counts
from tritonlab.tools.deploy import repository
from tritonlab.tools.deploy.environment.placed import EnvironmentOptions, PlacedEnvironment

CELL = counts("seen_rows", reads="X", writes="Y")
OPTIONS = "--quiet --input X:FP32[2] --output Y:FP32[2]"


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_deploy_files_are_written_beside_the_models(
    notebook: Any, in_a_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tritonlab.tools.deploy.image_build.shutil.which", lambda name: None)
    assert notebook.run(f"%%triton_model same {OPTIONS}\n{CELL}").success
    result = notebook.run("%triton export same out/models --deploy=docker,k8s --target=24.08")
    root = in_a_folder / "out"
    assert result.success and f"{root}/README.md says how to run" in result.text
    assert "tritonserver:24.08-py3 tritonserver" in result.text
    assert (root / "models/same/1/model.py").read_text() == CELL
    assert "tritonserver:24.08-py3" in (root / "deploy/Dockerfile").read_text()
    assert {path.name for path in (root / "deploy/k8s").iterdir()} == {"base", "overlays", "checkov.yaml"}
    assert not (root / "deploy/kserve").exists()
    assert "seen_rows" in (root / "deploy/monitoring/dashboard.json").read_text()
    named = notebook.run("%triton export same out/models --deploy=k8s --target=24.08 --build --overwrite")
    assert "docker build -t " in named.text and "no container engine answers here" in named.text
    again = notebook.run("%triton export same out/models --deploy=docker --target=24.10")
    assert f"{root} exists" in again.text and "change deploy/Dockerfile" in again.text and "--overwrite" in again.text
    assert "24.08" in (root / "deploy/Dockerfile").read_text()


def test_deploy_files_are_refused_where_they_would_lie_among_the_models(notebook: Any, in_a_folder: Path) -> None:
    assert notebook.run(f"%%triton_model same {OPTIONS}\n{CELL}").success
    refused = notebook.run("%triton export same out --deploy=docker")
    assert "%triton export same out/models --deploy=docker" in refused.text
    assert "there are docker, k8s, kserve, ray" in notebook.run("%triton export same out/models --deploy=swarm").text
    assert list(in_a_folder.iterdir()) == []


def test_an_environment_is_for_the_target_of_the_export(
    notebook: Any, in_a_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[EnvironmentOptions] = []

    def place(models: Any, options: EnvironmentOptions, **_: Any) -> PlacedEnvironment:
        requested.append(options)
        return PlacedEnvironment()

    monkeypatch.setattr(repository, "place_environment", place)
    assert notebook.run(f"%%triton_model same {OPTIONS}\n{CELL}").success
    for target in ("24.08", "kserve", "2.53"):
        more = "--env-python=3.12 --env-budget=300" * (target == "2.53")
        assert notebook.run(f"%triton export same out --env=dir --target={target} {more}").success
    assert [options.release for options in requested] == ["2.49", "2.34", "2.53"]
    assert (requested[-1].python, requested[-1].budget) == ("3.12", 300_000_000)


def test_several_models_with_artifacts_are_written_at_once_or_only_listed(notebook: Any, in_a_folder: Path) -> None:
    for name in ("one", "two"):
        assert notebook.run(f"%%triton_model {name} {OPTIONS}\n{CELL}").success
    result = notebook.run("%triton export one two out/models --dry-run --deploy=docker")
    assert "Nothing was written" in result.text and "Dockerfile" in result.text
    assert list(in_a_folder.iterdir()) == []
    report = notebook.run("%triton export one two out/models --artifact \"two/words.json=['a','b']\"").result
    assert [each.path.name for each in report.reports] == ["one", "two"]
    assert (in_a_folder / "out/models/two/1/words.json").read_text() == '[\n "a",\n "b"\n]\n'
    assert not (in_a_folder / "out/models/one/1/words.json").exists()
    refused = notebook.run("%triton export one two out --artifact words.json=1")
    assert "artifact 'words.json' has to name its model" in refused.text and "one/words.json" in refused.text


def test_help_is_printed_without_a_name(notebook: Any) -> None:
    result = notebook.run("%triton export --help")
    assert result.success and "--deploy" in result.text and "--about" in result.text
