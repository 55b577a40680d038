"""`%triton export` with what it writes beside the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models import counts
from tritonlab.export.environment.placed import EnvironmentOptions
from tritonlab.notebook.shell import export_command

CELL = counts("seen_rows", reads="X", writes="Y")
OPTIONS = "--quiet --input X:FP32[2] --output Y:FP32[2]"


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_deploy_files_are_written_beside_the_models(notebook: Any, in_a_folder: Path) -> None:
    assert notebook.run(f"%%triton_model same {OPTIONS}\n{CELL}").success
    result = notebook.run("%triton export same out/models --deploy=docker,k8s --target=24.08")
    assert result.success and "files were written in" in result.text
    root = in_a_folder / "out"
    assert (root / "models/same/1/model.py").read_text() == CELL
    assert "tritonserver:24.08-py3" in (root / "deploy/Dockerfile").read_text()
    assert {path.name for path in (root / "deploy/k8s").iterdir()} == {"deployment.yaml", "hpa.yaml", "service.yaml"}
    assert not (root / "deploy/kserve").exists()
    assert "seen_rows" in (root / "deploy/monitoring/dashboard.json").read_text()
    again = notebook.run("%triton export same out/models --deploy=docker --target=24.10")
    assert "exists and differs" in again.text and "--overwrite" in again.text


def test_deploy_files_are_refused_where_they_would_lie_among_the_models(notebook: Any, in_a_folder: Path) -> None:
    assert notebook.run(f"%%triton_model same {OPTIONS}\n{CELL}").success
    refused = notebook.run("%triton export same out --deploy=docker")
    assert "%triton export same out/models --deploy=docker" in refused.text
    assert "there are docker, k8s, kserve" in notebook.run("%triton export same out/models --deploy=swarm").text
    assert list(in_a_folder.iterdir()) == []


def test_an_environment_is_for_the_target_of_the_export(
    notebook: Any, in_a_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[EnvironmentOptions] = []
    monkeypatch.setattr(export_command, "place_environment", lambda models, options, lock, say: asked.append(options))
    assert notebook.run(f"%%triton_model same {OPTIONS}\n{CELL}").success
    for target in ("24.08", "kserve", "2.53"):
        assert notebook.run(f"%triton export same out --env=dir --target={target}").success
    assert [options.release for options in asked] == ["2.49", "2.34", "2.53"]
