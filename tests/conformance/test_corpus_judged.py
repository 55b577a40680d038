"""The corpus of pre-flight, written and called as in a notebook, exported, and judged by a real 2.51 (`make exam`): no
trap is called equal, no right model is accused."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tritonlab
from tests.tools.deploy.preflight.corpus import RIGHT, TRAPS, notebook_folder
from tritonlab.tools.deploy.verify.hiding import find_hiding
from tritonlab.tools.deploy.verify.judgement import ModelJudgement
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE, find_wheel, unpacked

from .reference import ROOT

if "TRITONLAB_EXAM" not in os.environ:
    pytest.skip("minutes; `make exam` runs it", allow_module_level=True)
if find_hiding({}).kind != "namespace":
    pytest.skip("no mount namespaces here", allow_module_level=True)

#: Right models whose answers vary, which cannot be proved, and one that differs: a real server writes `__pycache__`
#: next to model.py, and this model counts what is there.
_NOT_EQUAL = {"random", "clock", "lists_itself"}


@contextlib.contextmanager
def _author_folder() -> Iterator[Path]:
    """Make a folder that is not below /tmp, of which every judge has its own."""
    author = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        yield author
    finally:
        shutil.rmtree(author)
        for name in ("log_of_it.txt", "whole"):  # what right models write where a server runs
            Path("/", name).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def judged() -> Iterator[dict[str, ModelJudgement]]:
    """Yield the verdict on each model."""
    with (
        _author_folder() as author,
        pytest.MonkeyPatch.context() as patch,
        notebook_folder(author, slow=True) as places,
    ):
        patch.setenv(CACHE_VARIABLE, str(ROOT / "build" / "cache"))
        unpacked(find_wheel("2.51"), print, threading.Event())
        tritonlab.reset()
        codes = {f"trap_{name}": TRAPS[name] for name in TRAPS} | {f"right_{name}": RIGHT[name] for name in RIGHT}
        models = []
        for name, code in codes.items():
            model = tritonlab.load(name, code.source(**places), inputs=["X:FP32[-1]"], outputs=["Y:FP32[-1]"])
            model(X=np.array([1, 2], np.float32))
            models.append(model)
        report = tritonlab.export(models, author / "out" / "models", verify="2.51")
        tritonlab.reset()
        assert report.verification is not None
        yield {model.name: model for model in report.verification.releases[0].models}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_not_called_equal(judged: dict[str, ModelJudgement], name: str) -> None:
    found = judged[f"trap_{name}"]
    print(name, found.symbol, [str(each) for each in found.findings][:1])
    assert not found.passed, found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_model_is_not_accused(judged: dict[str, ModelJudgement], name: str) -> None:
    found = judged[f"right_{name}"]
    print(name, found.symbol, [str(each) for each in found.findings][:1])
    assert found.passed or name in _NOT_EQUAL, found
