"""How a stub finds the model's modules, in real stubs: the path of this process must not change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tests.serving import Lab, lab
from tritonlab.core.status import ModelLoadError

__all__ = ["lab"]

MODEL = "import {}\n\n\nclass TritonPythonModel:\n    pass\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path / "here"


def warnings(lab: Lab, name: str) -> set[str]:
    return {record.text for record in lab.server.logs(name) if record.text.startswith("warning: ")}


@rule("2.1.5")
def test_what_comes_from_the_working_directory_is_named(lab: Lab, here: Path) -> None:
    (here / "helper_module.py").write_text("")
    (here / "helper_package").mkdir()
    (here / "helper_package" / "__init__.py").write_text("from . import inner\n")
    (here / "helper_package" / "inner.py").write_text("")
    lab.load("uses", MODEL.format("helper_module, helper_package"))
    lost = "was imported from the working directory"
    where = f"{here}, where a deployed server does not find it: put it beside model.py"
    assert warnings(lab, "uses") == {
        f"warning: '{name}' {lost} {where}" for name in ("helper_module", "helper_package")
    }
    lab.server.unload("uses")


@rule("2.1.5")
def test_what_lies_beside_the_model_is_not_named(lab: Lab, here: Path) -> None:
    lab.load("brings", MODEL.format("beside"), None, **{"1__beside_dot_py": ""})
    assert warnings(lab, "brings") == set()
    lab.server.unload("brings")


@rule("2.1.5")
def test_the_working_directory_comes_before_the_models(lab: Lab, here: Path) -> None:
    (here / "beside.py").write_text("raise ValueError('that of the working directory')\n")
    lab.write("brings_too", MODEL.format("beside"), None, **{"1__beside_dot_py": ""})
    with pytest.raises(ModelLoadError, match="ValueError: that of the working directory"):
        lab.server.load("brings_too")
    lab.server.unload("brings_too")


def test_a_working_directory_that_is_gone_is_no_obstacle(lab: Lab, here: Path) -> None:
    here.rmdir()
    model = lab.load("nowhere", MODEL.format("os"))
    assert model.ready()
    lab.server.unload("nowhere")
