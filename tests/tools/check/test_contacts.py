"""Which of the files in a model's directory are its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tritonlab.tools.check.contacts import Contacts, uses_clock, uses_random

MODEL = "class TritonPythonModel:\n    pass\n"
CLIENT = "import random\nimport tritonclient.http\nprint(tritonclient.http)\n"


def contacts(directory: Path, **files: str) -> Contacts:
    for name, text in files.items():
        path = directory / "1" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    core = SimpleNamespace(models=lambda: [])
    model: Any = SimpleNamespace(
        name="m", directory=directory, called=lambda: [], instances=lambda: [], server=SimpleNamespace(core=core)
    )
    return Contacts.of_model(model)


def test_a_client_that_the_model_never_imports_is_not_the_model(tmp_path: Path) -> None:
    assert not contacts(tmp_path, model="import helper\n" + MODEL, client=CLIENT, helper="import json\n").any
    assert not uses_random(tmp_path) and "tritonclient" not in Contacts.named_in(tmp_path)
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "1" / "test_model.py").write_text("from client import x\n" + CLIENT)
    assert not uses_random(tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "import client",
        "from client import ask",
        "from . import client",
        "from .client import ask",
        "import importlib\nimportlib.import_module('client')",
        "import importlib\nimportlib.import_module(name)",
        "import runpy\nrunpy.run_path(where)",
        "import subprocess\nsubprocess.run(['python', 'client.py'])",
        "def execute():\n    import client",
        "import helper",
    ],
)
def test_what_the_model_may_import_is_the_model(tmp_path: Path, source: str) -> None:
    found = contacts(tmp_path, model=f"{source}\n{MODEL}", client=CLIENT, helper="import client\n")
    assert found.network == ("tritonclient",) and uses_random(tmp_path)


@pytest.mark.parametrize(
    ("source", "is_clocked"),
    [
        ("import time\nx = time.monotonic()", True),
        ("from time import time", True),
        ("import datetime\nx = datetime.date.today()", True),
        ("import time\ntime.sleep(1)", False),
    ],
)
def test_a_model_that_reads_a_clock(tmp_path: Path, source: str, is_clocked: bool) -> None:
    contacts(tmp_path, model=f"{source}\n{MODEL}")
    assert uses_clock(tmp_path) == is_clocked


def test_packages_are_reached_by_their_names(tmp_path: Path) -> None:
    assert contacts(tmp_path, model="import pack\n" + MODEL, **{"pack/__init__": CLIENT}).network == ("tritonclient",)
    assert contacts(tmp_path, model="from pack.deep import x\n" + MODEL, **{"pack/deep": CLIENT}).any


def test_a_model_file_of_another_name_and_one_without_a_class_count(tmp_path: Path) -> None:
    assert contacts(tmp_path / "named", other="import client\n" + MODEL, client=CLIENT).any
    assert contacts(tmp_path / "none", client=CLIENT).any
    assert contacts(tmp_path / "made", model="TritonPythonModel = make()\nimport socket, grpc\n", client="").any
