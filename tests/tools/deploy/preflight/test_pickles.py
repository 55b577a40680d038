"""Pickles as libraries write them, of a class of `__main__`: another process makes them."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.serving import write_model
from tritonlab.tools.deploy.preflight.finding import Prediction
from tritonlab.tools.deploy.preflight.judge import judge, subject_in
from tritonlab.tools.deploy.preflight.pickles import names_in_main

_HEAD = """
import io, pickle, sys
import numpy as np
class Scaler:
    def __init__(self): self.mean = np.arange(3.0)
class Outer:
    class Inner: pass
def scale(x): return x
path = sys.argv[1]
"""


def made(path: Path, code: str) -> Path:
    subprocess.run([sys.executable, "-c", _HEAD + code, str(path)], check=True, timeout=120)
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_each_protocol(tmp_path: Path, protocol: int) -> None:
    things = "[Scaler(), scale, Scaler(), 'c__main__\\nNot\\n', len]"
    path = made(tmp_path / "s.pkl", f"pickle.dump({things}, open(path, 'wb'), {protocol})")
    assert names_in_main(path) == ["Scaler", "scale"]


def test_a_class_within_another(tmp_path: Path) -> None:
    assert names_in_main(made(tmp_path / "s.pkl", "pickle.dump(Outer.Inner(), open(path, 'wb'))")) == ["Outer.Inner"]


@pytest.mark.parametrize("compress", ["0", "3", "('gzip', 3)", "('bz2', 3)", "('xz', 3)", "('lzma', 3)"])
@pytest.mark.parametrize("thing", ["Scaler()", "{'big': np.arange(30000.0), 'text': '.', 's': Scaler()}"])
def test_a_file_of_joblib_has_arrays_in_between(tmp_path: Path, compress: str, thing: str) -> None:
    pytest.importorskip("joblib")
    path = made(tmp_path / "s.joblib", f"import joblib\njoblib.dump({thing}, path, compress={compress})")
    assert names_in_main(path) == ["Scaler"]


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_file_of_torch(tmp_path: Path, is_zip: bool) -> None:
    pytest.importorskip("torch")
    code = "import torch\nnet = Scaler(); net.w = torch.ones(500)\n"
    path = made(tmp_path / "s.pt", f"{code}torch.save(net, path, _use_new_zipfile_serialization={is_zip})")
    assert names_in_main(path) == ["Scaler"]
    path = made(tmp_path / "w.pt", f"{code}torch.save({{'w': net.w}}, path, _use_new_zipfile_serialization={is_zip})")
    assert names_in_main(path) == []


def test_cloudpickle_writes_the_code_of_a_class(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    path = made(tmp_path / "s.pkl", "import cloudpickle\ncloudpickle.dump(Scaler(), open(path, 'wb'))")
    assert names_in_main(path) == []


def test_several_pickles_in_one_file(tmp_path: Path) -> None:
    code = "file = open(path, 'wb')\npickle.dump(1, file)\npickle.dump(Scaler(), file)"
    assert names_in_main(made(tmp_path / "s.pkl", code)) == ["Scaler"]


class Runs:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('it ran')",)


def test_nothing_of_a_pickle_is_executed_and_what_is_none_needs_nothing(tmp_path: Path) -> None:
    for name, content in {
        "runs.pkl": pickle.dumps(Runs()),
        "empty.pkl": b"",
        "text.pkl": b"hello\n",
        "cut.pkl": pickle.dumps({"a": [1, 2, 3]})[:-3],
        "gz.pkl": b"\x1f\x8bnot",
        "x.pkl": b"xyz",
        "xz.pkl": b"\xfd7zXZ\0\0",
        "zip.pt": b"PK\3\4nonsense",
        "numbers.pkl": pickle.dumps(np.arange(100)),
        "short.pkl": b"\x93.",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert names_in_main(tmp_path / name) == [], name
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("code/model.py", "x = 1")
    assert names_in_main(tmp_path / "other.pt") == [] == names_in_main(tmp_path / "absent.pkl")


def test_the_finding_says_what_to_do(tmp_path: Path) -> None:
    version = tmp_path / "m" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text("")
    (version.parent / "config.pbtxt").write_text('backend: "python"')
    made(version / "scaler.pkl", "pickle.dump(Scaler(), open(path, 'wb'))")
    (found,) = [each for each in judge(subject_in(tmp_path / "m")).findings if each.row == "P14"]
    assert found.outcome is Prediction.LOAD and found.source_line == str(version / "scaler.pkl")
    assert str(found) == (
        "1/scaler.pkl is a pickle that needs Scaler of __main__, the notebook in which it was made: define Scaler in a "
        "helper file beside model.py, import it from there, and pickle it again"
    )


@pytest.mark.parametrize("dump", ["pickle.dump(thing, open(path, 'wb'))", "joblib.dump(thing, path, compress=3)"])
def test_what_a_pickle_imports_is_missing_in_an_image(tmp_path: Path, dump: str) -> None:
    write_model(tmp_path, "m", "import pickle\n", "")
    code = "import joblib\nfrom sklearn.preprocessing import StandardScaler\n"
    code += f"thing = StandardScaler().fit(np.ones((3, 1)))\n{dump}"
    made(tmp_path / "m" / "1" / "s.pkl", code)
    site = tmp_path / "site-packages"
    modules = {name: str(site / name / "__init__.py") for name in ("sklearn", "scipy", "numpy")}
    (found,) = judge(replace(subject_in(tmp_path / "m"), modules=modules), "2.51").findings
    assert (found.row, found.outcome) == ("P2", Prediction.LOAD) and found.source_line.endswith("1/s.pkl")
    assert found.sentence.startswith("it imports sklearn, which")
    # what was not loaded is not known to be needed
    assert not judge(replace(subject_in(tmp_path / "m"), modules={}), "2.51").findings
