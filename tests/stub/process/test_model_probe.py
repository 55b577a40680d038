"""The answers of the probe in the copy of a model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import tritonlab.stub
from tritonlab.stub._pb_stub.process.model_probe import ModelProbe


def test_it_counts_the_objects_that_are_held(tmp_path: Path) -> None:
    probe = ModelProbe(str(tmp_path / "m" / "1" / "model.py"), str(tmp_path))

    def count() -> int:
        (tmp_path / "order").write_text("count")
        probe.obey()
        return int(json.loads((tmp_path / "answer").read_text()))

    before = count()
    kept = [object() for _ in range(1000)]
    assert before > 1000
    assert 900 < count() - before < 1500
    assert len(kept) == 1000


def test_temporary_files_lie_in_a_directory_and_what_is_made_by_name_is_listed(tmp_path: Path) -> None:
    program = """
import os, sys, tempfile
sys.path.insert(0, sys.argv[1])
from _pb_stub.process.model_probe import keep_files
shared = tempfile.gettempdir()
os.makedirs(sys.argv[2] + "/tmp")
open(shared + "/old", "w").close()
keep_files(sys.argv[2])
tempfile.mkdtemp()
open(shared + "/old", "a").close()
open(shared + "/new", "w").close()
os.close(os.open(shared + "/newer", os.O_CREAT | os.O_WRONLY))
os.mkdir(shared + "/folder")
"""
    stub, own = Path(tritonlab.stub.__file__).parent, tmp_path / "own" / "made-1"
    environment = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", program, str(stub), str(own)], env=environment, check=True)
    assert len(list((own / "tmp").iterdir())) == 1
    made = (own / "made").read_text().split("\0")[:-1]
    assert made == [str(tmp_path / name) for name in ("new", "newer", "folder")]
