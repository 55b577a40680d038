"""What a model reads, recorded in real stubs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.serving import write_model
from tritonlab import Model, Server
from tritonlab.core.status import ModelLoadError

SOURCE = """\
import io, os, sys
from pathlib import Path
import beside
import here
import triton_python_backend_utils as pb_utils
TABLE = open("table.txt").read()
class TritonPythonModel:
    def initialize(self, args):
        self.where = os.environ["PLACE"]
        os.environ["MINE"] = "1"
        os.environb[b"MINE_TOO"] = b"1"
        os.environb[b"MINE_TOO"], os.environb[b"IN_BYTES"]
        os.environ["MINE"], os.getenv("NOT_SET"), dict(os.environ), os.environ.copy(), list(os.environ.items())
        self.opens = Path(self.where, "data.npy").read_bytes()
        with open(os.path.join(self.where, "log.txt"), "w"):
            pass
        open(os.path.join(self.where, "log.txt")).close()
        open(os.path.join(args["model_repository"], "labels.txt")).close()
    def execute(self, requests):
        os.getenv("LATE")
        open(os.path.join(self.where, "late.txt")).close()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(1, "f4"))]) for r in requests]
import numpy as np
"""
CONFIG = 'input { name: "IN" data_type: TYPE_FP32 dims: [1] } output { name: "OUT" data_type: TYPE_FP32 dims: [1] }'


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    notebook = tmp_path / "notebook"
    notebook.mkdir()
    for name in ("table.txt", "late.txt", "data.npy"):
        (notebook / name).write_text("x")
    (notebook / "here.py").write_text("import os\nHOME = os.environ['NOT_SECRET']\n")
    write_model(tmp_path / "models", "m", SOURCE, CONFIG)
    (tmp_path / "models" / "m" / "labels.txt").touch()
    (tmp_path / "models" / "m" / "1" / "beside.py").write_text("import json\n")
    monkeypatch.chdir(notebook)
    for name, value in {"PLACE": str(notebook), "LATE": "1", "IN_BYTES": "1", "NOT_SECRET": "hush"}.items():
        monkeypatch.setenv(name, value)
    with Server(tmp_path / "models", warm=0) as server:
        yield server.model("m")


def test_files_and_variables_are_recorded_while_loading_and_on_request_while_executing(
    model: Model, tmp_path: Path
) -> None:
    notebook, source = tmp_path / "notebook", str(tmp_path / "models" / "m" / "1" / "model.py")

    def read() -> tuple[list[tuple[str, str, int, bool]], list[tuple[str, str, int]]]:
        (found,) = model.reads(record=True)
        assert {each.how for each in found.files} == {"open"}
        return [each[:4] for each in found.files], [tuple(each) for each in found.variables]

    row = np.zeros(1, np.float32)
    model(IN=row)
    loaded = (
        [(str(notebook / "table.txt"), source, 6, True), (str(notebook / "data.npy"), source, 14, False)],
        [("NOT_SECRET", str(notebook / "here.py"), 2), ("PLACE", source, 9), ("IN_BYTES", source, 12)],
    )
    assert read() == loaded
    model(IN=row)
    files, variables = read()
    assert files == [*loaded[0], (str(notebook / "late.txt"), source, 21, False)]
    assert variables == [*loaded[1], ("LATE", source, 20)]
    (found,) = model.reads()
    assert found.working_directory == str(notebook)
    assert found.written == [str(notebook / "log.txt")]
    assert "hush" not in str(found)


def test_nothing_is_left_of_it_when_a_model_executes(tmp_path: Path) -> None:
    """A class that keeps `open` keeps it as it is: not as a method. A request runs the real one, and there is no audit
    hook: one would hear of the object that is refused here."""
    source = """
import builtins, io, os
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    opener = open
    def initialize(self, args):
        self.opener(__file__).close()
        self.environment = type(os.environ)
    def execute(self, requests):
        left = [builtins.open is not io.open, type(open) is not type(len), type(os.environ) is self.environment]
        left += [type(os.environ) is not os._Environ, type(os.environb) is not os._Environ]
        left += [type(os.stat) is not type(len)]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([sum(left)], "f4"))]) for r in requests]
"""
    write_model(tmp_path / "models", "m", source, CONFIG)
    with Server(tmp_path / "models", warm=0) as server:
        assert server.model("m")(IN=np.zeros(1, np.float32))["OUT"].tolist() == [0.0]


def test_what_open_raises_is_the_authors(tmp_path: Path) -> None:
    source = """
class TritonPythonModel:
    def initialize(self, args):
        open("/nowhere/at/all")
    def execute(self, requests):
        pass
"""
    write_model(tmp_path / "models", "m", source, CONFIG)
    with Server(tmp_path / "models", model_control_mode="explicit", warm=0) as server:
        with pytest.raises(ModelLoadError, match="No such file or directory: '/nowhere/at/all'") as raised:
            server.load("m")
        assert raised.value.exception is not None
        assert [frame.file for frame in raised.value.exception.frames] == [str(tmp_path / "models/m/1/model.py")]
