from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.long_proofs import long
from tests.models import IDENTITY
from tests.serving import write_model
from tests.tools.deploy.test_image_build import engines
from tritonlab.tools.deploy.export_run import DIFFERS, NOTHING, WRITTEN, run
from tritonlab.tools.deploy.verify.verdict import Verification

TEXT = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'


def test_a_repository_is_exported_with_what_deploys_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        write_model(tmp_path / "source", name, IDENTITY, TEXT)
    assert run(tmp_path / "source", tmp_path / "out", deploy="docker", about="Two of them.", as_json=True) == WRITTEN
    facts = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in facts["models"]] == ["one", "two"]
    assert "\nTwo of them.\n" in (tmp_path / "out" / "README.md").read_text()
    assert (tmp_path / "out" / "models" / "two" / "1" / "model.py").read_text() == IDENTITY
    assert json.loads((tmp_path / "out" / "export.json").read_text())["version"] == facts["version"]


def test_what_cannot_be_exported_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "gone", tmp_path / "out") == NOTHING
    write_model(tmp_path / "source", "one", IDENTITY, TEXT)
    assert run(tmp_path / "source", tmp_path / "out", deploy="helm") == NOTHING
    write_model(tmp_path / "source", "bad", "import nowhere", TEXT)
    assert run(tmp_path / "source", tmp_path / "out") == NOTHING
    (tmp_path / "not.ipynb").write_text("{}")
    assert run(tmp_path / "not.ipynb", tmp_path / "out") == NOTHING
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("tritonlab: ")]
    assert len(lines) == 4 and "is not a model repository" in lines[0] and "deploy='helm'" in lines[1]
    assert not (tmp_path / "out").exists()


def test_the_image_is_built_and_run_where_an_engine_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "source", "one", IDENTITY, TEXT)
    log, out = engines(tmp_path, monkeypatch, podman=""), tmp_path / "out"
    assert run(tmp_path / "source", out, run_image=True, as_json=True) == WRITTEN
    facts = json.loads(capsys.readouterr().out)
    assert facts["build"]["engine"] == "podman" and facts["build"]["image"].endswith(facts["version"])
    assert log.read_text().splitlines()[1:] == [" ".join(step) for step in facts["build"]["steps"]]
    assert len(facts["build"]["steps"]) == 2 and (out / "models/one/config.pbtxt").is_file()
    assert run(tmp_path / "source", out, build=True, overwrite=True, engine="docker") == NOTHING
    printed = capsys.readouterr()
    assert "the image was not built: " in printed.err and str(out) in printed.out  # the report all the same
    assert "the container engine does not answer: 'docker' is not on PATH" in printed.err


@long
def test_the_models_of_a_notebook_are_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nbformat = pytest.importorskip("nbformat").v4
    magic = "%%triton_model one --max-batch-size 4 --input IN:FP32[1] --output OUT:FP32[1]\n"
    cells = [nbformat.new_code_cell(each) for each in ("%load_ext tritonlab", magic + IDENTITY)]
    notebook = tmp_path / "of an author.ipynb"
    notebook.write_text(json.dumps(nbformat.new_notebook(cells=cells)))
    assert run(notebook, tmp_path / "out", deploy="docker", about="One of them.", as_json=True) == WRITTEN
    facts = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in facts["models"]] == ["one"]
    assert (tmp_path / "out/models/one/1/model.py").read_text().rstrip() == IDENTITY.rstrip()
    assert "\nOne of them.\n" in (tmp_path / "out/README.md").read_text()
    assert len(json.loads(notebook.read_text())["cells"]) == 2  # as it was
    nothing = "raise ValueError('of the author')"
    notebook.write_text(json.dumps(nbformat.new_notebook(cells=[nbformat.new_code_cell(nothing)])))
    assert run(notebook, tmp_path / "none") == NOTHING
    printed = capsys.readouterr().err
    assert "was not exported, because a cell failed" in printed and "ValueError: of the author" in printed


def test_a_proof_that_differs_ends_with_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "source", "one", IDENTITY, TEXT)
    found = Verification(tmp_path, (), (), tmp_path / "page", tmp_path / "record")
    monkeypatch.setattr("tritonlab.tools.deploy.repository.verify", lambda place, **options: found)
    assert run(tmp_path / "source", tmp_path / "out", verify="2.51") == DIFFERS
    assert "page: " in capsys.readouterr().out
