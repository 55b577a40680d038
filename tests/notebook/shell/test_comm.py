"""The kernel's end of the extension's comm, asked by a window that is played here."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notebook.conftest import IDENTITY, IDENTITY_OPTIONS, Notebook
from tests.notebook.repositories import write_repository
from tests.serving import eventually
from tritonlab import Server
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.shell.comm import PROTOCOL, Windows
from tritonlab.notebook.shell.comm_calls import CALLS

MODEL = f"%%triton_model echo {IDENTITY_OPTIONS}\n{IDENTITY}"
EXTENSION = Path(__file__).resolve().parents[3] / "extension"


class Window:
    """The browser's end: a comm as the kernel sees it."""

    comm_id = "1"

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._id = 0
        self._on_msg: Callable[[Any], None] = lambda message: None
        self._on_close: Callable[[Any], None] = lambda message: None

    def on_msg(self, callback: Callable[[Any], None]) -> None:
        self._on_msg = callback

    def on_close(self, callback: Callable[[Any], None]) -> None:
        self._on_close = callback

    def send(self, data: dict[str, Any]) -> None:
        with self._changed:
            self.heard.append(data)
            self._changed.notify_all()

    def close(self) -> None:
        self._on_close({})

    def wait(self, found: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(found, self.heard)), 10), json.dumps(self.heard[-1], indent=1)
            return next(message for message in reversed(self.heard) if found(message))

    def ask(self, do: str, **given: Any) -> Any:
        """The answer; of a question that failed what was wrong, as a dict with `kind` and `text`."""
        self._id += 1
        self._on_msg({"content": {"data": {"id": self._id, "do": do, "with": given}}})
        answer = self.wait(lambda message: message.get("id") == self._id)
        return answer["ok"] if "ok" in answer else answer["error"]

    def told(self, **facts: Any) -> dict[str, Any]:
        """The only model, as soon as the window was told of one with these facts."""

        def fits(message: dict[str, Any]) -> bool:
            models = message.get("models", [])
            return len(models) == 1 and all(models[0][key] == value for key, value in facts.items())

        model: dict[str, Any] = self.wait(fits)["models"][0]
        return model


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that no test before has loaded anything into: a window is told of all its models."""
    with Server(tmp_path, model_control_mode="explicit") as server:
        yield server


@pytest.fixture
def windows(workspace: Workspace) -> Windows:
    return Windows(lambda: workspace)


@pytest.fixture
def window(windows: Windows) -> Iterator[Window]:
    window = Window()
    windows.opened(window, {})
    yield window
    window.close()


def test_a_window_is_greeted_and_told_of_the_models(window: Window) -> None:
    hello, models = window.heard[:2]
    assert hello["hello"]["protocol"] == PROTOCOL
    assert models == {"models": []}


def test_both_halves_name_the_same_protocol_and_calls() -> None:
    text = (EXTENSION / "src" / "protocol.ts").read_text()
    assert f"PROTOCOL = {PROTOCOL};" in text
    calls = text[text.index("interface Calls") : text.index("/** What the kernel sends")]
    assert {line.split(":")[0].strip() for line in calls.splitlines() if line.startswith("  ") and line[2] != " "} - {
        "}"
    } >= set(CALLS)


def test_a_window_is_told_what_becomes_of_a_cell(window: Window, notebook: Notebook) -> None:
    notebook.run(MODEL)
    model = window.told(state="READY")
    assert model["cell"].rstrip() == model["served"].rstrip() == MODEL.rstrip()
    assert model["error"] is None

    broken = MODEL.replace("responses = []", "responses = = []")
    notebook.run(broken)
    model = window.told(error={"text": "SyntaxError: invalid syntax", "line": 7}, state="READY")
    assert (model["cell"].rstrip(), model["served"].rstrip()) == (broken.rstrip(), MODEL.rstrip())

    window.ask("unload", name="echo")
    window.told(state="UNLOADED")
    assert "nope" in window.ask("load", name="nope")["text"]


def test_a_line_that_fails_in_the_model_is_a_line_of_the_cell(window: Window, notebook: Notebook) -> None:
    notebook.run(MODEL.replace("def execute", "def initialize(self, args):\n        args['nope']\n\n    def execute"))
    model = window.told(state="FAILED")
    assert model["error"] == {"text": "KeyError: 'nope'", "line": 7}
    assert model["served"] == ""


def test_an_export_is_planned_then_written(window: Window, notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(MODEL)
    repository = tmp_path / "models"
    plan = window.ask("plan", models=["echo"], directory=str(repository))
    assert plan["directory"] == str(repository)
    assert plan["models"][0]["added"] == ["1/model.py", "config.pbtxt"]
    assert not repository.exists()

    done = window.ask("export", model="echo", directory=str(repository))
    assert (repository / "echo" / "1" / "model.py").read_text() == IDENTITY
    assert done["models"][0]["files"] == ["1/model.py", "config.pbtxt"]

    (repository / "echo" / "1" / "model.py").write_text("# edited\n")
    assert window.ask("plan", models=["echo"], directory=str(repository))["models"][0]["changed"] == ["1/model.py"]
    assert window.ask("export", model="echo", directory=str(repository))["kind"] == "ExportConflict"
    done = window.ask("export", model="echo", directory=str(repository), overwrite=True)
    assert (Path(done["models"][0]["backup"]) / "1" / "model.py").read_text() == "# edited\n"


def test_what_it_does_not_know_is_an_answer(window: Window) -> None:
    assert "knows no 'dance'" in window.ask("dance")["text"]


def test_a_closed_window_is_told_nothing(windows: Windows, window: Window, notebook: Notebook) -> None:
    other = Window()
    other.comm_id = "2"
    windows.opened(other, {})
    other.close()
    before = list(other.heard)
    notebook.run(MODEL)
    window.told(state="READY")
    assert other.heard == before


SLEEPY = """\
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        print("executing", flush=True)
        while not all(request.is_cancelled() for request in requests):
            time.sleep(0.01)
        error = pb_utils.TritonError("gone", pb_utils.TritonError.CANCELLED)
        return [pb_utils.InferenceResponse(error=error) for request in requests]
"""


def test_the_overview_says_what_happens_now(window: Window, notebook: Notebook) -> None:
    window.ask("overview")  # records from now on, where nobody did
    notebook.run(MODEL.replace("echo", "counted"))
    for _ in range(3):
        notebook["counted"](IN=[[1.0]])
    overview = window.ask("overview")
    (model,) = [each for each in overview["models"] if each["name"] == "counted"]
    assert (model["state"], model["answered"], model["failed"]) == ("READY", 3, 0)
    assert [instance["state"] for instance in model["instances"]] == ["ready"]
    assert model["rate"] == pytest.approx(0.3)
    assert 0 < model["p50_ms"] <= model["p99_ms"]
    assert (overview["requests"], overview["ports"]) == ([], {})
    assert re.match(r"This kernel uses [\d,]+ MB of memory, its 1 model process uses [\d,]+ MB\.", overview["memory"])
    json.dumps(overview)


def test_a_request_is_cancelled_from_the_window(window: Window, notebook: Notebook) -> None:
    notebook.run(f"%%triton_model sleepy {IDENTITY_OPTIONS}\n{SLEEPY}")
    answers = notebook["sleepy"].infer(inputs={"IN": [[1.0]]})
    (request,) = window.ask("overview")["requests"]
    assert (request["model"], request["called_by"]) == ("sleepy", "")
    assert window.ask("cancel", serial=request["serial"])["cancelled"]
    with pytest.raises(Exception, match="gone"):
        list(answers)
    assert not window.ask("cancel", serial=request["serial"])["cancelled"]


def test_what_cannot_be_cancelled_is_killed_from_the_window(window: Window, notebook: Notebook) -> None:
    hangs = SLEEPY.replace("not all(request.is_cancelled() for request in requests)", "True")
    notebook.run(f"%%triton_model hangs {IDENTITY_OPTIONS}\n{hangs}")
    answers = notebook["hangs"].infer(inputs={"IN": [[1.0]]}, raise_on_error=False)
    eventually(lambda: window.ask("overview")["requests"][0]["state"] == "executing")
    (request,) = window.ask("overview")["requests"]
    assert request["ends"] == "" and window.ask("kill", name="hangs")["killed"] == []  # nobody has given it up
    window.ask("cancel", serial=request["serial"])
    eventually(lambda: window.ask("overview")["requests"][0]["ends"])
    (request,) = window.ask("overview")["requests"]
    assert request["state"] == "executing, cancel requested"
    assert "Python code cannot be cancelled" in request["ends"] and "%triton kill hangs" in request["ends"]
    assert window.ask("kill", name="hangs")["killed"]
    assert next(answers).error is not None


def test_the_log_is_filtered(window: Window, notebook: Notebook) -> None:
    talk = "\n    def initialize(self, args):\n        print('Hello')\n        pb_utils.Logger.log_warn('careful')\n"
    notebook.run(MODEL.replace("echo", "talks").replace("TritonPythonModel:\n", f"TritonPythonModel:{talk}"))
    assert [line["text"] for line in window.ask("logs", model="talks", search="hello")["lines"]] == ["Hello"]
    assert [line["text"] for line in window.ask("logs", model="talks", level="WARNING")["lines"]] == ["careful"]
    assert window.ask("logs", model="other") == {"count": 0, "lines": []}
    assert window.ask("logs", level="LOUD")["kind"] == "ValueError"


def test_the_log_names_cells(window: Window, notebook: Notebook) -> None:
    notebook.run(MODEL.replace("echo", "fails").replace("return ", "raise ValueError('no')\n        return ", 1))
    assert not notebook.run("fails(IN=[[1.0]])").success
    (text,) = [line["text"] for line in window.ask("logs", model="fails", level="ERROR")["lines"]]
    assert f"Cell In[{notebook.number() - 1}]" in text and "model.py" not in text


def test_open_ports_are_told(window: Window, workspace: Workspace) -> None:
    endpoints = workspace.ports.open(http_port=0, grpc_port=0, metrics_port=0)
    assert window.ask("overview")["ports"] == endpoints.places
    workspace.ports.close()
    assert window.ask("overview")["ports"] == {}


def test_a_window_gets_the_cells_of_a_repository(notebook: Notebook, window: Any, tmp_path: Path) -> None:
    root = write_repository(tmp_path / "models")
    notebook.run(f"%triton open '{root}'")
    cells = window.ask("cells", model="pre")["cells"]
    assert [cell.split()[0] for cell in cells] == ["%%triton_config", "%%triton_file", "%%triton_model"]
    assert "is not a model of a repository that was opened" in window.ask("cells", model="nobody")["text"]
