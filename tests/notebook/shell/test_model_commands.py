"""`%triton edit`, also of models of a repository; `%triton artifact` and `--capture`, up to an export that another
server loads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.notebook.conftest import Notebook
from tests.notebook.repositories import contents, write_repository
from tritonlab import Server

ROW = np.array([1, 2], np.float32)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_repository(tmp_path / "models")


def next_cell(notebook: Notebook) -> str:
    texts = [item["text"] for item in notebook.shell.payload_manager.read_payload()] or [notebook.shell.rl_next_input]
    notebook.shell.payload_manager.clear_payload()
    return str(texts[-1])


def test_open_shows_the_table_and_binds_the_models(notebook: Notebook, root: Path) -> None:
    result = notebook.run("%triton open models")
    assert result.success
    for text in ("pre", "READY", "template", "FAILED", "${max_batch_size}", "backend tensorrt"):
        assert text in result.text
    assert notebook["post"](T=ROW)["Y"].tolist() == [2, 3]
    assert "all" not in notebook.shell.user_ns and "the variable 'all' is Python's own" in result.text
    facts = notebook.run("%triton open models post --json").result
    assert {row["name"]: row["state"] for row in facts["models"]}["pre"] == "NOT OPENED"


def test_cells_of_a_repository_go_through_ipython_unchanged(notebook: Notebook, root: Path, tmp_path: Path) -> None:
    notebook.run("import tritonlab")
    opened = notebook.run("%triton open models").result
    for name in ("pre", "post", "all"):
        for cell in opened[name].to_cells():
            result = notebook.run(cell)
            assert result.success, result.text
    assert [name for name in opened if opened[name].in_cells] == ["all", "post", "pre"]
    assert notebook["pre"](X=ROW)["T"].tolist() == [2, 4]
    opened.export(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(root)


def test_edit_brings_a_model_of_a_repository(notebook: Notebook, root: Path, tmp_path: Path) -> None:
    opened: Any = notebook.run("%triton open models").result
    result = notebook.run("%triton edit pre")
    cell = next_cell(notebook)
    assert cell == opened["pre"].to_cells()[-1]
    assert "%%triton_file pre helper.py" in result.text and "models/pre" in result.text
    assert notebook.run(cell.replace("scaled(x, self.factor)", "-scaled(x, self.factor)")).success
    assert notebook["pre"](X=ROW)["T"].tolist() == [-2, -4]
    # what the cell does not write counts as it is in the directory
    opened.export(tmp_path / "out")
    before, after = contents(root), contents(tmp_path / "out")
    assert {path for path in before if after[path] != before[path]} == {"pre/1/model.py"}
    # edited again, it is the cell that ran
    assert notebook.run("%triton edit pre").success
    again = next_cell(notebook)
    assert again.startswith("%%triton_model pre --base models/pre\n") and "-scaled" in again
    assert notebook.run(again).success
    assert notebook.run("%triton edit all").success
    assert next_cell(notebook).startswith("%%triton_config all --base models/all\n")


def test_a_cell_without_the_base_stands_alone(notebook: Notebook, root: Path) -> None:
    opened: Any = notebook.run("%triton open models").result
    *_, cell = opened["post"].to_cells()
    assert notebook.run(cell).success
    alone = cell.replace(" --base models/post", " --input T:FP32[2] --output Y:FP32[2]")
    result = notebook.run(alone)
    assert result.success, result.text
    assert not opened["post"].in_cells and opened["post"].facts().state == "NOT SERVED"


def test_a_wrong_base_is_refused_in_words(notebook: Notebook, root: Path) -> None:
    result = notebook.run("%%triton_model pre --base models/nowhere\nclass TritonPythonModel: pass")
    assert not result.success
    assert "there is no model directory 'models/nowhere'" in result.text


def test_an_error_in_a_helper_of_the_repository_names_its_file(notebook: Notebook, root: Path) -> None:
    (root / "pre" / "1" / "helper.py").write_text("def scaled(x, factor):\n    return absent\n")
    opened: Any = notebook.run("%triton open models").result
    notebook.run(opened["pre"].to_cells()[-1])
    result = notebook.run("pre(X=[1, 2])")
    assert "NameError: name 'absent' is not defined" in result.text
    assert f"{root}/pre/1/helper.py" in result.text


OPTIONS = "--quiet --input IN:FP32[-1] --output OUT:FP32[-1]"
WITH_FILES = """\
import json, os
import numpy as np
import torch
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        here = os.path.dirname(__file__)
        self.scale = np.load(os.path.join(here, "scale.npy"))
        self.labels = json.load(open(os.path.join(here, "labels.json")))
        self.net = torch.nn.Linear(1, 1)
        self.net.load_state_dict(torch.load(os.path.join(here, "weights.pt"), weights_only=True))
    def execute(self, requests):
        with torch.no_grad():
            found = [float(self.net(torch.ones(1))) * self.scale, len(self.labels)]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(found, "f4"))]) for r in requests]
"""
CELLS = """\
import json as text
RATE = 3.0
class Scaler:
    def scaled(self, x):
        return x * RATE
def helper(x):
    return Scaler().scaled(x) + len(text.dumps([]))
"""
CAPTURING = '''\
"""A docstring."""
from __future__ import annotations
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", helper(x))]) for x in inputs]
'''


def answer(server: Any, name: str, value: float = 1.0) -> list[float]:
    found: list[float] = server.model(name)(IN=np.array([value], np.float32))["OUT"].tolist()
    return found


def test_what_was_made_in_the_notebook_is_kept_and_exported(notebook: Any, workspace: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    notebook.run("import torch, numpy as np; net = torch.nn.Linear(1, 1)")
    notebook.run("with torch.no_grad(): net.weight.fill_(2.0); net.bias.fill_(1.0)")
    kept = notebook.run("%triton artifact m weights.pt=net")
    assert "1/weights.pt of m has " in kept.text and "torch.load(path, weights_only=True)" in kept.text
    assert notebook.run("%triton artifact m scale.npy=np.float32(10)").success
    assert notebook.run("%triton artifact m labels.json=['a', 'b', 'c']").success
    assert notebook.run(f"%%triton_model m {OPTIONS}\n{WITH_FILES}").success
    assert answer(workspace.server, "m") == [30.0, 3.0]
    assert notebook.run("%triton artifact m labels.json=['a']").success  # it is loaded again with it
    assert answer(workspace.server, "m") == [30.0, 1.0]
    report = notebook.run(f"%triton export m '{tmp_path / 'models'}'").result
    assert {"1/labels.json", "1/scale.npy", "1/weights.pt"} < set(report.plan.files)
    (warning,) = report.plan.warnings  # torch, which the image lacks
    assert warning.startswith("it imports torch, which Triton's image does not bring: ")
    with Server(tmp_path / "models") as server:
        assert answer(server, "m") == [30.0, 1.0]


def test_what_other_cells_define_is_written_in_front(notebook: Any, workspace: Any, tmp_path: Path) -> None:
    notebook.run(CELLS)
    assert notebook.run(f"%%triton_model plain {OPTIONS}\n{CAPTURING}").success
    result = notebook.run("%triton preflight plain")
    assert "P1  helper is used and not defined in the model's own files" in result.text
    assert "Cell In[" in result.text
    assert notebook.run(f"%triton export plain '{tmp_path / 'one'}' --capture").result.plan.warnings == ()
    assert answer(workspace.server, "plain") == [5.0]
    assert notebook.run(f"%%triton_model m --capture {OPTIONS}\n{CAPTURING}").success
    text = workspace.draft("m").source.text()
    assert text.startswith('"""A docstring."""\nfrom __future__ import annotations\nimport json as text\n')
    assert "RATE = 3.0\n" in text and text.endswith(CAPTURING.partition("annotations\n")[2])
    assert text == (tmp_path / "one" / "plain" / "1" / "model.py").read_text()
    with Server(tmp_path / "one") as server:
        assert answer(server, "plain", 2.0) == [8.0]


def test_the_target_of_an_export_is_judged(notebook: Any, tmp_path: Path) -> None:
    source = CAPTURING.replace("helper(x)", "x") + "    def is_ready(self):\n        return True\n"
    notebook.run(f"%%triton_model m {OPTIONS}\n{source}")
    report = notebook.run(f"%triton export m '{tmp_path / 'models'}' --target 2.49").result
    assert report.plan.warnings[0].startswith("it uses is_ready(), which Triton 2.49 (24.08) lacks: ")
    assert notebook.run(f"%triton export m '{tmp_path / 'models'}' --target 26.05").result.plan.warnings == ()
    assert "is not a release of Triton" in notebook.run("%triton preflight m --target 9.99").text
    facts = json.loads(notebook.run("%triton preflight m --target kserve --json").text.partition(": ")[2])
    assert facts["target"].startswith("KServe's default runtime") and facts["findings"][-1]["row"] == "P7"


def test_watch_shows_the_card_and_ends_with_stop(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("FACTOR = 2\n")
    notebook.run("import tritonlab")
    source = "import helper\nclass TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
    line = f"%%triton_model watched --input IN:FP32[1] --output OUT:FP32[1] --file {tmp_path / 'helper.py'}"
    assert notebook.run(f"{line}\n{source}").success
    cell = notebook.run("%triton watch watched")
    assert cell.success and str(tmp_path / "helper.py") in cell.text and cell.result is not None
    assert "watched" in notebook.run("%triton watch").result.text
    assert "no longer" in notebook.run("%triton watch watched --stop").result.text
    assert "no model is watched" in notebook.run("%triton watch").result.text
