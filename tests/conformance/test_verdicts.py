"""Models that only work on the author's machine, and right ones: the verdict on each, with a real 2.51 as judge.

All of them are written, called and exported as in a notebook, and judged in one run.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tritonlab
from tests.models import streams
from tritonlab.core.status import TritonError
from tritonlab.tools.deploy.child_command import CommandFailed
from tritonlab.tools.deploy.verify.hiding import find_hiding
from tritonlab.tools.deploy.verify.judgement import ModelJudgement
from tritonlab.tools.deploy.verify.verdict import Verification
from tritonlab.tools.deploy.verify.verification import verify
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE, find_wheel, unpacked

from .reference import ROOT, missing

if (why := missing()) is not None:
    pytest.skip(f"{why}; the server here is a wheel of the same package", allow_module_level=True)
if find_hiding({}).kind != "namespace":
    pytest.skip("no mount namespaces here", allow_module_level=True)

pytestmark = pytest.mark.timeout(900)  # the first run fetches a wheel and builds a Python; the first test does it all
#: A trap of each kind, which `make test` tries for 4 seconds each; `make exam` tries them all.
QUICK = (
    *("relative", "in_execute", "numpy_load", "exists", "home", "swallowed", "cached", "script", "variable", "in_opt"),
    *("counter", "random", "random_load", "clock", "fails", "never_called"),
)

MODEL = """import glob, os, sqlite3, subprocess, sys, tempfile, time, zipfile
import numpy as np
import triton_python_backend_utils as pb_utils
{head}
class TritonPythonModel:
    def initialize(self, args):
        self.args, self.count = args, 0
        {initialize}

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", self.one(r))]) for r in requests]

    def one(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        {body}
        return (x * k).astype(np.float32)
"""


class Model(NamedTuple):
    """A model: how it finds its factor `k`, and the symbols that its verdict may have."""

    symbols: str
    body: str = "k = 2"
    initialize: str = "pass"
    head: str = ""


TRAPS = {
    "relative": Model("D", "k = float(open('table.txt').read())"),
    "absolute": Model("X", "k = self.k", "self.k = float(open('FOLDER/table.txt').read())"),
    "in_execute": Model("D", "k = float(open('FOLDER/table.txt').read())"),
    "numpy_load": Model("X", "k = self.k", "self.k = np.load('FOLDER/k.npy')[0]"),
    "numpy_fromfile": Model("D", "k = np.fromfile('FOLDER/k.bin', np.float32)[0]"),
    "memmap": Model("D", "k = np.memmap('FOLDER/k.bin', np.float32, 'r')[0]"),
    "zip": Model("D", "k = float(zipfile.ZipFile('FOLDER/k.zip').read('k.txt'))"),
    "database": Model("D", "k = sqlite3.connect('FOLDER/k.db').execute('select k from t').fetchone()[0]"),
    "exists": Model("D", "k = 7 if os.path.exists('FOLDER/table.txt') else 1"),
    "glob": Model("D", "k = len(glob.glob('FOLDER/*.txt')) + 1"),
    "listed": Model("D", "k = len(os.listdir('FOLDER'))"),
    "home": Model("D", "k = float(open(os.path.expanduser('~/.scale')).read())"),
    "home_exists": Model("D", "k = 7 if os.path.exists(os.path.expanduser('~/.scale')) else 1"),
    "swallowed": Model(
        "D", "try: k = float(open('FOLDER/table.txt').read())\n        except OSError: k = 1"
    ),
    "cached": Model("D", "k = self.args.setdefault('k', None) or float(open('FOLDER/table.txt').read())"),
    "script": Model("D", "k = float(subprocess.check_output([sys.executable, 'FOLDER/k.py']))"),
    "variable": Model("D", "k = float(os.environ.get('AUTHORS_SCALE', '1'))"),
    "working_directory": Model("D", "k = 7 if os.path.exists('table.txt') else 1"),
    "beside": Model("X", "k = scaling.K", head="import scaling"),
    "other_folder": Model("D", "k = float(open('ELSEWHERE/scale.txt').read())"),
    "in_opt": Model("D", "k = float(open('OPT/scale.txt').read())"),
    "counter": Model("?", "self.count += 1; k = self.count"),
    "random": Model("?", "k = np.random.default_rng().random()"),
    "random_load": Model("?", "k = self.k", "self.k = np.random.default_rng().random()"),
    "clock": Model("?", "k = time.time_ns() % 1_000_003"),
    "fails": Model("?", "raise ValueError('never')"),
    "never_called": Model("0"),
}
if "TRITONLAB_EXAM" not in os.environ:
    TRAPS = {name: TRAPS[name] for name in QUICK}
RIGHT = {
    "plain": Model("="),
    "temporary": Model(
        "=", "file = tempfile.TemporaryFile(); file.write(b'7'); file.seek(0); k = float(file.read()); file.close()"
    ),
    "own_file": Model("=", "k = float(open(os.path.join(os.path.dirname(__file__), 'k.txt')).read())"),
    "parameters": Model("=", "k = len(self.args['model_name'])"),
    "optional": Model("=", "k = 2", head="try: import orjson\nexcept ImportError: orjson = None"),
    "matmul": Model("=~", "k = np.float32(np.tanh(np.arange(64, dtype=np.float32) @ np.ones(64, np.float32) / 2048))"),
    "seeded": Model("=", "k = np.random.default_rng(0).integers(9)"),
    "half_fails": Model("=", "k = 2 if x[0] >= 0 else 1 / 0"),
    "large": Model("=", "x = np.tile(x, 400_000); k = 2"),  # its answer is not kept with the last requests
    "stream": Model("="),
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Return the folder of the notebook: not below /tmp, which every judge has of its own."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    for name in ("notebook", "home", "elsewhere"):
        (folder / name).mkdir()
    notebook = folder / "notebook"
    for place in (notebook / "table.txt", folder / "home" / ".scale", folder / "elsewhere" / "scale.txt"):
        place.write_text("7")
    np.save(notebook / "k.npy", np.array([7], np.float32))
    np.array([7], np.float32).tofile(notebook / "k.bin")
    with zipfile.ZipFile(notebook / "k.zip", "w") as archive:
        archive.writestr("k.txt", "7")
    with sqlite3.connect(notebook / "k.db") as database:
        database.execute("create table t as select 7 as k")
    (notebook / "k.py").write_text("print(7)")
    (notebook / "scaling.py").write_text("K = 7")
    opt = opt_of(folder)
    opt.mkdir()
    (opt / "scale.txt").write_text("7")
    yield folder
    shutil.rmtree(opt)
    shutil.rmtree(folder)


def opt_of(folder: Path) -> Path:
    """Return a directory below /opt that no other test run has."""
    return Path("/opt") / f"tritonlab-{folder.name}"


@pytest.fixture(scope="module")
def judged(folder: Path) -> Iterator[Verification]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(ROOT / "build" / "cache"))
        try:
            unpacked(find_wheel("2.51"), print, threading.Event())
        except CommandFailed as error:
            pytest.skip(str(error))
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("AUTHORS_SCALE", "7")
        patch.chdir(folder / "notebook")
        patch.setattr(sys, "path", [str(folder / "notebook"), *sys.path])
        patch.setenv("PYTHONPATH", str(folder / "notebook"))
        tritonlab.reset()
        models = [write(name, model, folder) for name, model in (TRAPS | RIGHT).items()]
        report = tritonlab.export(models, folder / "out" / "models", verify="2.51", deploy="docker")
        few = [model for model in models if model.name in ("relative", "plain")]
        tritonlab.export(few, folder / "few", verify="2.51")
        tritonlab.reset()
        assert report.verification is not None
        yield report.verification


def write(name: str, model: Model, folder: Path) -> Any:
    """Load a model and call it, as a notebook would."""
    if name == "stream":
        source = streams("x + n", over="range(3)")
        loaded = tritonlab.load(name, source, inputs=["IN:FP32[-1]"], outputs=["OUT:FP32[-1]"], decoupled=True)
        list(loaded.infer(inputs={"IN": np.array([1], np.float32)}))
        return loaded
    source = MODEL.format(head=model.head, initialize=model.initialize, body=model.body)
    places = {"FOLDER": folder / "notebook", "ELSEWHERE": folder / "elsewhere", "OPT": opt_of(folder)}
    for word, place in places.items():
        source = source.replace(word, str(place))
    files = {"k.txt": b"7"} if name == "own_file" else None
    loaded = tritonlab.load(name, source, inputs=["X:FP32[-1]"], outputs=["Y:FP32[-1]"], files=files)
    for value in () if name == "never_called" else (1, -1) if name == "half_fails" else (1,):
        try:
            loaded(X=np.array([value, 2, 3], np.float32))
        except TritonError:
            assert name in ("fails", "half_fails")
        time.sleep(0.11 * (name == "half_fails"))  # one request in a tenth of a second is kept
    return loaded


def verdict_of(judged: Verification, name: str) -> ModelJudgement:
    return next(model for model in judged.releases[0].models if model.name == name)


@pytest.mark.parametrize("name", TRAPS)
def test_what_works_on_the_authors_machine_only_is_not_equal(judged: Verification, name: str) -> None:
    found = verdict_of(judged, name)
    assert found.symbol in TRAPS[name].symbols and not found.passed, found.findings


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_model_is_not_accused(judged: Verification, name: str) -> None:
    found = verdict_of(judged, name)
    assert found.symbol in RIGHT[name].symbols and found.passed, found.findings
    if name == "half_fails":
        assert [each.notebook for each in found.requests] == ["answered", "failed"]


def test_the_page_names_the_evidence_and_no_path_of_the_author(judged: Verification, folder: Path) -> None:
    page, record = judged.page.read_text(), judged.record.read_text()
    for text in (page, record):
        assert str(folder) not in text and sys.prefix not in text and os.path.expanduser("~") not in text
    assert "Not equal on Triton 2.51" in page and "No such file or directory: &#x27;table.txt&#x27;" in page
    assert page.index("What is not proved") < page.index("What differs") < page.index("What was sent")
    assert "last requests, as they were answered" in page and "X FP32[3]" in page and "<svg" in page


def test_a_later_verdict_without_the_requests_does_not_pass(judged: Verification, folder: Path) -> None:
    """The export has its requests, and what differed stays open while they are not sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(ROOT / "build" / "cache"))
        found = verify(folder / "few", triton="2.51", requests=[])
        assert not found.passed and "relative differed on" in found.releases[0].verdict
        assert "Earlier verdicts" in found.page.read_text()
        again = verify(folder / "few", triton="2.51")
        assert verdict_of(again, "relative").symbol == "D" and verdict_of(again, "plain").symbol == "="
        assert len(again.earlier) == 2 and not again.releases[0].still_open
