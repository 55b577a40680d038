from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from tests.serving import write_model
from tritonlab import Server
from tritonlab.ipc.processes.interpreter import STUB
from tritonlab.tools.deploy.loaded_modules import third_party_modules


@pytest.mark.parametrize(
    ("module", "distribution"), [("numpy", "numpy"), ("sklearn", "scikit-learn"), ("IPython", "ipython")]
)
def test_a_module_is_found_in_what_pip_wrote(module: str, distribution: str) -> None:
    file = __import__(module).__file__
    assert file is not None
    (found,) = third_party_modules({module: file}, own=())
    assert found.distribution is not None and found.is_packaged
    name, version = found.distribution.metadata["Name"], found.distribution.version
    assert (name.lower(), version) == (distribution, metadata.version(distribution))


def test_what_no_distribution_has_is_loose_and_what_python_or_the_model_has_is_left_out(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    modules = {
        "here.part": str(tmp_path / "here" / "part.py"),
        "here": str(tmp_path / "here"),
        "beside": str(tmp_path / "model" / "beside.py"),
        "packed": str(site / "packed.py"),
        "os": str(sys.modules["os"].__file__),
        "sitecustomize": str(site / "sitecustomize.py"),
        "__editable___x_finder": str(site / "__editable___x_finder.py"),
    }
    found = list(third_party_modules(modules, own=[tmp_path / "model"]))
    assert [(each.name, each.top, each.is_packaged) for each in found] == [
        ("here", "here", False),
        ("packed", "packed", True),
        ("here.part", "here", False),
    ]
    assert all(each.distribution is None for each in found)


def test_what_a_stub_has_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notebook" / "spread").mkdir(parents=True)
    for name in ("here.py", "spread/part.py"):
        (tmp_path / "notebook" / name).touch()
    source = "import json, beside, here, spread.part, numpy\nclass TritonPythonModel:\n    def execute(self, r): ...\n"
    write_model(tmp_path / "models", "m", source, 'input { name: "IN" data_type: TYPE_FP32 dims: [1] }')
    (tmp_path / "models" / "m" / "1" / "beside.py").touch()
    monkeypatch.chdir(tmp_path / "notebook")
    with Server(tmp_path / "models", warm=0, model_control_mode="none") as server:
        model = server.model("m")
        found = {each.name: each for each in third_party_modules(model.modules(), [model.directory, STUB.parent])}
    assert found["numpy"].distribution is not None and found["numpy"].distribution.version == np.__version__
    assert {name: each.file for name, each in found.items() if not each.is_packaged} == {
        "here": str(tmp_path / "notebook" / "here.py"),
        "spread": str(tmp_path / "notebook" / "spread"),
        "spread.part": str(tmp_path / "notebook" / "spread" / "part.py"),
    }
