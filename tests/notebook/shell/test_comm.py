"""The kernel's end of the extension's comm, used by a window that is played here."""

from __future__ import annotations

import importlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for

from tests.models import answers
from tests.notebook.conftest import IDENTITY_OPTIONS, Notebook
from tests.notebook.repositories import write_repository
from tests.serving import eventually
from tritonlab import Server
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.shell.comm import PROTOCOL, CellStates, Windows
from tritonlab.notebook.shell.comm_calls import CALLS
from tritonlab.tool_table import TOOLS, window_call
from tritonlab.tools.deploy.child_command import raise_if_cancelled

SOURCE = answers("x")
MODEL = f"%%triton_model echo {IDENTITY_OPTIONS}\n{SOURCE}"
#: Longest that a window waits, in seconds: an export may copy a Python meanwhile.
PATIENCE = 60.0
EXTENSION = Path(__file__).resolve().parents[3] / "extension"
#: The calls of a window, those of tools too.
EVERY_CALL = (*CALLS, *(name for tool in TOOLS for name in tool.calls))
#: The types of `extension/src/protocol.ts`, as `jlpm build` writes them.
SCHEMA = json.loads((EXTENSION / "generated" / "protocol.schema.json").read_text())
TYPES = SCHEMA["definitions"]


def validate(value: Any, form: dict[str, Any]) -> None:
    """Raise ValidationError unless the value, as JSON, is of a type of the extension."""
    validator_for(SCHEMA)({**SCHEMA, **form}).validate(json.loads(json.dumps(value)))


class Window:
    """The browser's end: a comm as the kernel sees it."""

    comm_id = "1"

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._id = 0
        self._on_msg: Callable[[Any], None] = lambda message: None
        self._on_close: Callable[[Any], None] = lambda message: None

    def on_msg(self, callback: Callable[[Any], None]) -> None:
        self._on_msg = callback

    def on_close(self, callback: Callable[[Any], None]) -> None:
        self._on_close = callback

    def send(self, data: dict[str, Any]) -> None:
        validate(data, TYPES["Received"])
        with self._changed:
            self.received.append(data)
            self._changed.notify_all()

    def close(self) -> None:
        self._on_close({})

    def wait(self, found: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        with self._changed:
            came = self._changed.wait_for(lambda: any(map(found, self.received)), PATIENCE)
            assert came, json.dumps(self.received[-1], indent=1)
            return next(message for message in reversed(self.received) if found(message))

    def request(self, do: str, **arguments: Any) -> Any:
        """Return the answer, or the `kind` and `text` of the error, in a dict. Both halves of an answered call must
        have the types of the extension.
        """
        self.begin(do, **arguments)
        ident = self._id
        answer = self.wait(lambda message: message.get("id") == ident and "progress" not in message)
        if "ok" not in answer:
            return answer["error"]
        call = TYPES["Calls"]["properties"][do]["properties"]
        validate(arguments, call["with"])
        validate(answer["ok"], call["ok"])
        return answer["ok"]

    def begin(self, do: str, **arguments: Any) -> None:
        """Send the request, and do not wait for the answer."""
        self._id += 1
        self._on_msg({"header": {}, "content": {"data": {"id": self._id, "do": do, "with": arguments}}})

    def model(self, **facts: Any) -> dict[str, Any]:
        """Wait until the window knows one model only, with these facts, and return it."""

        def fits(message: dict[str, Any]) -> bool:
            models = message.get("models", [])
            return len(models) == 1 and all(models[0][key] == value for key, value in facts.items())

        model: dict[str, Any] = self.wait(fits)["models"][0]
        return model


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Run a server that no test before has loaded anything into: a window gets all its models."""
    with Server(tmp_path, model_control_mode="explicit") as server:
        yield server


@pytest.fixture
def windows(workspace: Workspace) -> Windows:
    return Windows(lambda: workspace)


@pytest.fixture
def window(windows: Windows) -> Iterator[Window]:
    window = Window()
    windows.opened(window, {"header": {}})
    yield window
    window.close()


def test_a_window_is_greeted_with_the_models(window: Window) -> None:
    assert window.wait(lambda message: "models" in message) == {"models": []}
    assert window.received[0]["hello"]["protocol"] == PROTOCOL


def test_a_window_that_opens_during_a_change_gets_the_newest_last(
    windows: Windows, workspace: Workspace, notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extension opens its comm while the cell runs that was started with it."""
    notebook.run(MODEL)
    window, real = Window(), CellStates.now

    def now(states: CellStates) -> list[dict[str, Any]]:
        found = real(states)
        if threading.current_thread() is threading.main_thread():  # a change before what was found is sent
            workspace.server.unload("echo")
            window.model(state="UNLOADED")
        return found

    monkeypatch.setattr(CellStates, "now", now)
    windows.opened(window, {"header": {}})
    window.model()
    workspace.server.unload("echo")
    window.model(state="UNLOADED")
    assert window.received[-1]["models"][0]["state"] == "UNLOADED"
    window.close()


def test_both_halves_name_the_same_protocol_and_calls() -> None:
    assert f"PROTOCOL = {PROTOCOL};" in (EXTENSION / "src" / "protocol.ts").read_text()
    assert set(TYPES["Calls"]["properties"]) == set(EVERY_CALL)


@pytest.mark.parametrize("name", EVERY_CALL)
def test_both_halves_name_the_same_arguments(name: str) -> None:
    """An argument that the extension may leave out has a default here."""
    sent = TYPES["Calls"]["properties"][name]["properties"]["with"]
    if "$ref" in sent:
        sent = TYPES[sent["$ref"].rpartition("/")[2]]
    call = CALLS.get(name) or window_call(name)
    taken = [each for each in signature(call).parameters.values() if each.name not in ("workspace", "tell")]
    if any(each.kind is each.VAR_KEYWORD for each in taken):
        return  # it reads them itself
    assert {each.name for each in taken} >= set(sent.get("properties", {}))
    assert {each.name for each in taken if each.default is each.empty} <= set(sent.get("required", []))


def test_a_window_follows_a_cell(window: Window, notebook: Notebook) -> None:
    notebook.run(MODEL)
    model = window.model(state="READY")
    assert model["cell"].rstrip() == model["served"].rstrip() == MODEL.rstrip()
    assert model["error"] is None

    broken = MODEL.replace("responses = []", "responses = = []")
    notebook.run(broken)
    model = window.model(error={"text": "SyntaxError: invalid syntax", "line": 8}, state="READY")
    assert (model["cell"].rstrip(), model["served"].rstrip()) == (broken.rstrip(), MODEL.rstrip())

    window.request("unload", name="echo")
    window.model(state="UNLOADED")
    assert "nope" in window.request("load", name="nope")["text"]


def test_a_line_that_fails_in_the_model_is_a_line_of_the_cell(window: Window, notebook: Notebook) -> None:
    notebook.run(MODEL.replace("def execute", "def initialize(self, args):\n        args['nope']\n\n    def execute"))
    model = window.model(state="FAILED")
    assert model["error"] == {"text": "KeyError: 'nope'", "line": 8}
    assert model["served"] == ""


def test_the_kernel_stays_busy_for_jupyterlab_while_a_cell_runs(windows: Windows, notebook: Notebook) -> None:
    notebook.shell.user_ns["messages"] = messages = [{"header": {"msg_type": "comm_open"}} for _ in range(2)]
    notebook.shell.user_ns["open_window"] = lambda: windows.opened(Window(), messages[0])
    notebook.run("open_window()")
    windows.opened(Window(), messages[1])
    assert [message["header"]["msg_type"] for message in messages] == ["comm_info_request", "comm_open"]


def test_an_export_is_planned_then_written(window: Window, notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(MODEL)
    repository = tmp_path / "models"
    plan = window.request("plan", models=["echo"], directory=str(repository))
    assert plan["repository"] == str(repository)
    assert plan["models"][0]["added"] == ["1/model.py", "config.pbtxt"]
    assert not repository.exists()

    done = window.request("export", models=["echo"], directory=str(repository))
    assert (repository / "echo" / "1" / "model.py").read_text() == SOURCE
    assert done["models"][0]["files"] == ["1/model.py", "config.pbtxt"]

    (repository / "echo" / "1" / "model.py").write_text("# edited\n")
    assert window.request("plan", models=["echo"], directory=str(repository))["models"][0]["changed"] == ["1/model.py"]
    assert window.request("export", models=["echo"], directory=str(repository))["kind"] == "ExportConflict"
    done = window.request("export", models=["echo"], directory=str(repository), overwrite=True)
    assert (Path(done["models"][0]["backup"]) / "1" / "model.py").read_text() == "# edited\n"


COMPUTED = "SCALE = 3.0\nweights = np.ones(1000)"


@pytest.fixture
def scaled(notebook: Notebook) -> None:
    """Load a model that uses a constant of another cell, in a notebook with an array."""
    notebook.run(f"import numpy as np\n{COMPUTED}")
    notebook.run(MODEL.replace("x = ", "x = SCALE * "))


def test_the_panel_is_offered_what_there_is(window: Window) -> None:
    found = window.request("export_choices")
    names = [each["name"] for each in found["targets"]]
    assert found["target"] == "2.51" and {"2.51", "2.36", "kserve"} < set(names) and len(set(names)) == len(names)
    assert not next(each for each in found["targets"] if each["name"] == names[0])["started"]  # the newest
    assert found["kinds"] == ["docker", "k8s", "kserve", "ray"] and "requirements" in found["environments"]


def test_a_plan_offers_the_files_that_are_left_out(
    window: Window, notebook: Notebook, workspace: Workspace, tmp_path: Path
) -> None:
    notebook.run(MODEL)
    directory = Path(workspace.server.model("echo").directory)
    (directory / "1" / "secret").symlink_to(__file__)
    (directory / ".env").write_text("TOKEN=1")
    chosen = {"models": ["echo"], "directory": str(tmp_path / "models")}
    (model,) = window.request("plan", **chosen)["models"]
    assert model["left_out"] == [
        {"path": ".env", "why": "hidden", "bytes": None, "included": False},
        {"path": "1/secret", "why": "outside", "bytes": None, "included": False},
    ]
    assert model["warnings"] == []
    (model,) = window.request("plan", **chosen, include=["1/secret"])["models"]
    assert "1/secret" in model["added"] and [each["included"] for each in model["left_out"]] == [False, True]


def test_a_plan_says_what_is_found_and_refused_by_choice(window: Window, scaled: None, tmp_path: Path) -> None:
    directory = str(tmp_path / "x")
    chosen = {"models": ["echo"], "directory": directory}
    plain = window.request("plan", **chosen)
    (model,) = plain["models"]
    (finding,) = [each for each in model["findings"] if each["row"] == "P1"]
    assert "SCALE is used and not defined" in finding["sentence"] and "Cell In[" in finding["source_line"]
    assert model["warnings"] == [] and plain["refused"] == {} and plain["bytes"] == model["bytes"] > 0
    assert [plain[each] for each in ("beside", "environment", "requests")] == [None] * 3
    assert (plain["verify"], plain["artifacts"]) == ([], [])

    artifacts = {"w.npy": "weights", "n.json": "missing + 1", "s.json": "1 +"}
    more: Any = {"capture": True, "env": "requirements", "deploy": ["docker"], "verify": ["2.51", "1.0"]}
    whole = window.request("plan", **chosen, **more, artifacts=artifacts)
    (model,) = whole["models"]
    assert model["captured"] == ["SCALE"] and not [each for each in model["findings"] if each["row"] == "P1"]
    assert whole["refused"]["deploy"]["fix"] == f"{directory}/models" and whole["refused"]["deploy"]["is_place"]
    assert any(each.startswith("numpy==") for each in whole["environment"]["packages"])
    cached, unknown = whole["verify"]
    requests, few = whole["requests"], window.request("plan", **chosen, verify=["2.51"], last=0)["requests"]
    assert requests["text"] == "0 golden, and {0} of the {0} last ones of the notebook".format(requests["kept"])
    assert ("no" in requests["problem"]) is (requests["kept"] == 0)
    assert few["text"].startswith("0 golden, and 0 of the ") and few["kept"] == requests["kept"] and few["problem"]
    assert cached["text"].startswith("Triton 2.51: ") and "1.0" in unknown["problem"]
    assert [(each["bytes"], each["problem"][:25]) for each in whole["artifacts"]] == [
        (8000, ""), (None, "the notebook does not def"), (None, "'1 +' is not an expressio"),
    ]  # fmt: skip

    refused = window.request("plan", **chosen, env=str(tmp_path / "nowhere"))["refused"]["env"]
    assert "is not a directory" in refused["text"] and refused["fix"]
    beside = window.request("plan", models=["echo"], directory=f"{directory}/models", deploy=["docker"])["beside"]
    assert "deploy/Dockerfile" in beside["added"] and not Path(directory).exists()


def test_the_panels_export_is_that_of_python(window: Window, scaled: None, tmp_path: Path) -> None:
    place = tmp_path / "x" / "models"
    options = {"capture": True, "artifacts": {"w.npy": "weights"}, "deploy": ["docker"]}
    done = window.request("export", models=["echo"], directory=str(place), **options, job="1")
    assert {"1/model.py", "1/w.npy", "config.pbtxt"} == set(done["models"][0]["files"])
    assert "SCALE = 3.0" in (place / "echo" / "1" / "model.py").read_text() and done["verification"] is None
    assert "deploy/Dockerfile" in done["beside"]["added"] and "Dockerfile" in done["tree"]
    progress = [message["progress"] for message in window.received if "progress" in message]
    assert 0 < progress[-1]["done"] <= progress[-1]["total"]
    assert window.request("cancel_export", job="1") == {"cancelled": False}  # it has ended
    zipped = window.request("zip_export", job="1")
    assert Path(zipped["path"]).stat().st_size == zipped["bytes"] > 0 and zipped["path"].endswith("models-echo.zip")
    assert "not known" in window.request("zip_export", job="2")["text"]
    bad = window.request("export", models=["echo"], directory=str(place), artifacts={"w.npy": "1 / 0"})
    assert bad["text"] == "w.npy = 1 / 0: ZeroDivisionError: division by zero"


def test_an_export_is_cancelled_from_the_window(
    window: Window, notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook.run(MODEL)

    def judged(directory: Path, *, cancel: threading.Event, say: Callable[[str], None], **rest: Any) -> None:
        say("at work")
        assert cancel.wait(10)
        raise_if_cancelled(cancel)

    # by its name: `tritonlab.export` is a function
    monkeypatch.setattr(importlib.import_module("tritonlab.tools.deploy.repository"), "verify", judged)
    window.begin("export", models=["echo"], directory=str(tmp_path / "x"), verify=["2.51"], job="mine")
    window.wait(lambda message: message.get("progress") == {"line": "at work"})
    assert window.request("cancel_export", job="mine") == {"cancelled": True}
    error = window.wait(lambda message: "error" in message)["error"]
    assert error["kind"] == "Cancelled" and "the proof was cancelled" in error["text"] and "stays" in error["text"]


def test_what_it_does_not_know_is_an_answer(window: Window) -> None:
    assert "has no call 'dance'" in window.request("dance")["text"]


def test_a_closed_window_receives_nothing(windows: Windows, window: Window, notebook: Notebook) -> None:
    other = Window()
    other.comm_id = "2"
    windows.opened(other, {"header": {}})
    other.wait(lambda message: "models" in message)
    other.close()
    before = list(other.received)
    notebook.run(MODEL)
    window.model(state="READY")
    assert other.received == before


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
    window.request("overview")  # records from now on, where nobody did
    notebook.run(MODEL.replace("echo", "counted"))
    for _ in range(3):
        notebook["counted"](IN=[[1.0]])
    overview = window.request("overview")
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
    (request,) = window.request("overview")["requests"]
    assert (request["model"], request["called_by"]) == ("sleepy", "")
    assert window.request("cancel", serial=request["serial"])["cancelled"]
    with pytest.raises(Exception, match="gone"):
        list(answers)
    assert not window.request("cancel", serial=request["serial"])["cancelled"]


def test_what_cannot_be_cancelled_is_killed_from_the_window(window: Window, notebook: Notebook) -> None:
    hangs = SLEEPY.replace("not all(request.is_cancelled() for request in requests)", "True")
    notebook.run(f"%%triton_model hangs {IDENTITY_OPTIONS}\n{hangs}")
    answers = notebook["hangs"].infer(inputs={"IN": [[1.0]]}, raise_on_error=False)
    eventually(lambda: window.request("overview")["requests"][0]["state"] == "executing")
    (request,) = window.request("overview")["requests"]
    assert request["ends"] == "" and window.request("kill", name="hangs")["killed"] == []  # nobody has given it up
    window.request("cancel", serial=request["serial"])
    eventually(lambda: window.request("overview")["requests"][0]["ends"])
    (request,) = window.request("overview")["requests"]
    assert request["state"] == "executing, cancel requested"
    assert "Python code cannot be cancelled" in request["ends"] and "%triton kill hangs" in request["ends"]
    assert window.request("kill", name="hangs")["killed"]
    assert next(answers).error is not None


def test_the_log_is_filtered(window: Window, notebook: Notebook) -> None:
    talk = "\n    def initialize(self, args):\n        print('Hello')\n        pb_utils.Logger.log_warn('careful')\n"
    notebook.run(MODEL.replace("echo", "talks").replace("TritonPythonModel:\n", f"TritonPythonModel:{talk}"))
    assert [line["text"] for line in window.request("logs", model="talks", search="hello")["lines"]] == ["Hello"]
    assert [line["text"] for line in window.request("logs", model="talks", level="WARNING")["lines"]] == ["careful"]
    assert window.request("logs", model="other") == {"count": 0, "lines": []}
    assert window.request("logs", level="LOUD")["kind"] == "ValueError"


def test_the_log_names_cells(window: Window, notebook: Notebook) -> None:
    notebook.run(MODEL.replace("echo", "fails").replace("return ", "raise ValueError('no')\n        return ", 1))
    assert not notebook.run("fails(IN=[[1.0]])").success
    (text,) = [line["text"] for line in window.request("logs", model="fails", level="ERROR")["lines"]]
    assert f"Cell In[{notebook.number() - 1}]" in text and "model.py" not in text


def test_open_ports_are_reported(window: Window, workspace: Workspace) -> None:
    endpoints = workspace.ports.open(http_port=0, grpc_port=0, metrics_port=0)
    assert window.request("overview")["ports"] == endpoints.places
    workspace.ports.close()
    assert window.request("overview")["ports"] == {}


STEPS = """%%triton_config whole
platform: "ensemble"
input { name: "A" data_type: TYPE_FP32 dims: -1 }
output { name: "B" data_type: TYPE_FP32 dims: -1 }
ensemble_scheduling { step { model_name: "part" model_version: -1
  input_map { key: "IN" value: "A" } output_map { key: "OUT" value: "B" } } }
"""


def test_an_ensemble_and_its_step_are_exported_once_each(window: Window, notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(MODEL.replace("echo", "part").replace(" --max-batch-size 8", ""))
    notebook.run(STEPS)
    for names in (["whole", "part"], ["part", "whole"], ["whole"]):
        done = window.request("export", models=names, directory=str(tmp_path / "x"))
        assert sorted(each["name"] for each in done["models"]) == ["part", "whole"]
        assert [line.strip() for line in done["tree"].splitlines()].count("part/  (was up to date)") <= 1
        assert sum(line.strip().startswith(("part/", "whole/")) for line in done["tree"].splitlines()) == 2
    plan = window.request("plan", models=["whole"], directory=str(tmp_path / "x"))
    assert [(each["name"], each["needed_by"]) for each in plan["models"]] == [("whole", ""), ("part", "whole")]


def test_a_window_gets_the_cells_of_a_repository(notebook: Notebook, window: Any, tmp_path: Path) -> None:
    root = write_repository(tmp_path / "models")
    notebook.run(f"%triton open '{root}'")
    cells = window.request("cells", model="pre")["cells"]
    assert [cell.split()[0] for cell in cells] == ["%%triton_config", "%%triton_file", "%%triton_model"]
    assert "is not a model of a repository that was opened" in window.request("cells", model="nobody")["text"]
