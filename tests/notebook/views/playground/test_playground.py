"""The playground's widgets without a frontend, where a click is a call, through the real server and its stubs."""

from __future__ import annotations

import gc
import io
import json
import shutil
import subprocess
import threading
import weakref
from pathlib import Path
from typing import Any

import comm
import numpy as np
import pytest

import tritonlab
from tests.models import answers
from tests.serving import eventually
from tritonlab import Server
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views import widget
from tritonlab.notebook.views.card.model_states import ModelStates
from tritonlab.notebook.views.opener import open_playground
from tritonlab.notebook.views.playground import in_flight
from tritonlab.notebook.views.playground.input_files import InputFile
from tritonlab.notebook.views.playground.input_values import ValueProblem
from tritonlab.notebook.views.playground.playground import Playground

SOURCE = answers("x * 2", first='if x.sum() < 0: raise ValueError("negative")')
BF16 = """\
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        found = [pb_utils.get_input_tensor_by_name(request, "IN") for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", tensor)]) for tensor in found]
"""
FOREVER = """\
import threading, time
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request, request.get_response_sender())).start()
    def answer(self, request, sender):
        while not request.is_cancelled():
            time.sleep(0.005)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@pytest.fixture
def playground(workspace: Workspace) -> Playground:
    options = ConfigOptions.from_keywords(max_batch_size=8, inputs="IN:FP32[-1,2]", outputs="OUT:FP32[-1,2]")
    return Playground(workspace.load("m", SOURCE, options=options), lambda error: "the author's traceback")


def click(playground: Playground, button: Any) -> str:
    """Click, and return what stands there when the request that the button sent is over."""
    changed = threading.Event()
    playground.result.observe(lambda change: changed.set(), names="value")
    button.click()
    assert changed.wait(30)
    sending = playground._sent.now()
    assert sending is None or sending.wait(30)
    for thread in threading.enumerate():
        if thread.name.startswith("playground"):
            thread.join(30)
    return str(playground.result.value)


def test_the_form_is_made_from_the_config(playground: Playground) -> None:
    row = playground.inputs["IN"]
    assert "[batch ≤ 8, any, 2]" in row.label.value
    assert len(row.sizes) == 1
    assert "dim 0 =" in row.sizes_box.children[0].value
    assert not playground.buttons.send.disabled and playground.buttons.cancel.disabled


def test_send_is_a_call_too(playground: Playground) -> None:
    playground.form.batch.value = 2
    playground.inputs["IN"].sizes[0].value = 3
    outcome = playground.send()
    assert outcome.error is None
    assert outcome.outputs["OUT"].shape == (2, 3, 2)
    outcome = playground.send({"IN": np.ones((1, 1, 2), np.float32)})
    assert outcome.outputs["OUT"].numpy().tolist() == [[[2, 2]]]


def test_a_click_shows_the_answer(playground: Playground) -> None:
    playground.inputs["IN"].mode.value = "Typed"
    playground.inputs["IN"].text.value = "1.5"
    assert "[[[3. 3.]]]" in click(playground, playground.buttons.send)
    assert not playground.buttons.send.disabled


def test_many_go_out_together(playground: Playground) -> None:
    playground.buttons.count.value = 5
    assert "5 of 5 requests answered, " in click(playground, playground.buttons.many)
    assert len(playground.send_many(3)) == 3


def test_errors_are_the_clients_and_the_authors(playground: Playground) -> None:
    outcome = playground.send({"IN": -np.ones((1, 1, 2), np.float32)})
    assert outcome.error is not None
    assert "ValueError: negative" in playground.result.value
    assert "the author&#x27;s traceback" in playground.result.value
    playground.send({"IN": np.ones((1, 1, 2))})
    assert "Hint: convert it: array.astype(numpy.float32)." in playground.result.value


def test_a_field_that_cannot_be_read_sends_nothing(playground: Playground) -> None:
    playground.inputs["IN"].mode.value = "Python"
    playground.inputs["IN"].text.value = "1 +"
    playground.buttons.send.click()
    assert "IN: SyntaxError" in playground.result.value
    playground.inputs["IN"].text.value = r"__import__('numpy').array(['\ud800'])"  # a half of a character
    playground.buttons.send.click()
    assert "surrogates not allowed" in playground.result.value
    playground.form.parameters.value = "nonsense"
    playground.inputs["IN"].mode.value = "Random"
    with pytest.raises(ValueProblem, match="parameters"):
        playground.send()


def test_id_and_parameters_travel(playground: Playground) -> None:
    playground.form.request_id.value = "mine"
    playground.form.parameters.value = '{"answer": 42, "flag": true}'
    request = playground.send().request
    assert request.request_id == "mine"
    assert request.parameters == {"answer": 42, "flag": True}


def test_cancel_reaches_the_model(workspace: Workspace) -> None:
    options = ConfigOptions.from_keywords(decoupled=True, inputs="IN:FP32[1]", outputs="OUT:FP32[1]")
    playground = Playground(workspace.load("m", FOREVER, options=options))
    playground.buttons.send.click()
    assert playground.buttons.send.disabled and not playground.buttons.cancel.disabled
    with pytest.raises(ValueProblem, match="still in flight"):
        playground.send()
    sending = playground._sent.now()
    assert sending is not None and not sending.finished
    playground.buttons.cancel.click()
    assert sending.wait(30)


def test_what_is_waited_for_is_in_lines_of_cells(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "STUCK_SECONDS", 0.0)
    options = ConfigOptions.from_keywords(decoupled=True, inputs="IN:FP32[1]", outputs="OUT:FP32[1]")
    playground = Playground(workspace.load("m", FOREVER, options=options), cite=lambda text: f"cited: {text}")
    playground.buttons.send.click()
    sending = playground._sent.now()
    assert sending is not None
    eventually(lambda: "cited: request " in playground.result.value)
    playground.buttons.cancel.click()
    assert sending.wait(30)


def test_a_wait_that_ends_early_says_so(workspace: Workspace) -> None:
    options = ConfigOptions.from_keywords(decoupled=True, inputs="IN:FP32[1]", outputs="OUT:FP32[1]")
    source = FOREVER.replace("not request.is_cancelled()", "not (request.is_cancelled() and self.told)")
    source = source.replace("    def execute", "    told = False\n    def execute", 1)
    playground = Playground(workspace.load("m", source, options=options))
    playground.buttons.send.click()
    playground.buttons.cancel.click()
    assert playground.buttons.send.disabled
    playground.buttons.cancel.click()
    assert "the response is no longer awaited" in playground.result.value
    assert not playground.buttons.send.disabled
    workspace.unload("m", timeout=0.1)


def test_a_model_that_is_gone_is_reported(playground: Playground, workspace: Workspace) -> None:
    workspace.unload("m")
    playground.buttons.send.click()
    assert "&#x27;m&#x27; has no available versions" in playground.result.value
    assert not playground.buttons.send.disabled


def test_ctrl_enter_sends_what_the_fields_show(playground: Playground) -> None:
    row = playground.inputs["IN"]
    changed = threading.Event()
    playground.result.observe(lambda change: changed.set(), names="value")
    playground.keys._handle_custom_msg({"kind": "send", "label": "IN value", "value": "4"}, [])
    assert changed.wait(30)
    assert (row.mode.value, row.text.value) == ("Typed", "4")
    assert "[[[8. 8.]]]" in playground.result.value
    sending = playground._sent.now()
    assert sending is not None and sending.wait(30)
    playground.keys._handle_custom_msg({"kind": "send", "label": "batch size", "value": "2"}, [])
    assert playground.form.batch.value == 2


def test_what_ctrl_enter_brought_is_not_sent_back(playground: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    # the person may have gone on typing, and what comes back would replace it
    updates: list[Any] = []

    def publish(self: Any, msg_type: str, data: Any = None, **_: Any) -> None:
        # not what the browser asks back as an echo: it knows which of those are old
        if data.get("method") == "update" and "value" in data["state"] and self.comm_id in fields:
            updates.append(data["state"]["value"])

    text = playground.inputs["IN"].text
    fields = (playground.form.seed.comm.comm_id, text.comm.comm_id)
    monkeypatch.setattr(comm.DummyComm, "publish_msg", publish)
    monkeypatch.setattr(playground, "_press", lambda count: None)
    playground.keys._handle_custom_msg({"kind": "send", "label": "IN value", "value": "4"}, [])
    playground.keys._handle_custom_msg({"kind": "send", "label": "seed", "value": "7"}, [])
    assert (playground.form.seed.value, text.value, updates) == (7, "4", [])
    playground.keys._handle_custom_msg({"kind": "send", "label": "seed", "value": "-7"}, [])
    assert (playground.form.seed.value, updates) == (0, [0])  # it has to show what was made of it


def test_the_form_is_copied_as_a_program(playground: Playground) -> None:
    playground.inputs["IN"].text.value = "[[[1.5, 2]]]"
    playground.programs.choice.value = "curl"
    assert '"data": [1.5, 2.0]' in playground.programs.text.value
    assert "http://localhost:8000/v2/models/m/infer" in playground.programs.text.value
    playground.programs.choice.value = "pytest"
    assert "send the request first" in playground.programs.note.value
    playground.send()
    snippet = playground.copy_as("pytest")
    assert "def test_m():" in snippet.text and list(snippet.files) == ["test_m.npz"]
    with np.load(io.BytesIO(snippet.files["test_m.npz"])) as kept:
        assert kept["output.0.OUT"].tolist() == [[[3, 4]]]


def test_what_was_wrong_goes_with_a_good_answer(playground: Playground) -> None:
    playground.programs.choice.value = "pytest"
    large = {"name": "large.npy", "size": 60_000_000, "type": ""}
    playground.keys._handle_custom_msg({"kind": "drop", "input": 0, "files": [large]}, [b""])
    assert (
        "send the request first" in playground.programs.note.value and "large.npy" in playground.inputs["IN"].note.value
    )
    playground.send({"IN": -np.ones((1, 1, 2), np.float32)})
    assert "large.npy" in playground.inputs["IN"].note.value
    playground.send({"IN": np.ones((1, 1, 2), np.float32)})
    assert "def test_m():" in playground.programs.text.value and "tl-bad" not in playground.programs.note.value
    assert playground.inputs["IN"].note.value == ""


def test_old_forms_end_but_not_that_of_the_cards(workspace: Workspace) -> None:
    """ipywidgets keeps every widget that nobody closes."""
    states = ModelStates.for_server(workspace.server)
    model = workspace.load("m", SOURCE, options=ConfigOptions.from_keywords(inputs="IN:FP32[2]", outputs="OUT:FP32[2]"))
    of_cards = states.playgrounds["m"] = open_playground(workspace, model)
    forms = [open_playground(workspace, model) for _ in range(9)]
    fields = [forms[0].widget, forms[0].form.box, *forms[0].form.fields, forms[0].buttons.box, forms[0].keys]
    assert [field for field in fields if field.comm is not None] == []
    assert of_cards.widget.comm is not None and all(form.widget.comm is not None for form in forms[1:])
    states.playgrounds.clear()


def test_a_form_that_was_closed_leaves_nothing(workspace: Workspace) -> None:
    model = workspace.load("m", SOURCE, options=ConfigOptions.from_keywords(inputs="IN:FP32[2]", outputs="OUT:FP32[2]"))
    before = set(comm.get_comm_manager().comms)
    form = open_playground(workspace, model)
    form.send()
    assert set(comm.get_comm_manager().comms) - before
    form.close()
    # also the layouts and styles that ipywidgets makes by itself
    assert set(comm.get_comm_manager().comms) - before == set()
    known = weakref.ref(form)
    del form

    def is_gone() -> bool:
        gc.collect()
        return known() is None

    eventually(is_gone)  # once the thread that follows the models has looked


def test_an_open_form_has_the_inputs_of_the_config_now(workspace: Workspace) -> None:
    options = ConfigOptions.from_keywords(max_batch_size=8, inputs="IN:FP32[2]", outputs="OUT:FP32[2]")
    states = ModelStates.for_server(workspace.server)
    workspace.changed = states.poke
    model = workspace.load("m", SOURCE, options=options)
    forms = [open_playground(workspace, model) for _ in range(9)]
    form = forms[-1]
    form.form.request_id.value = "mine"
    former = form.form
    widgets = [former.box, former.seed, former.seed.layout, former.seed.style, *former.fields]
    assert all(widget.comm is not None for widget in widgets)
    options = ConfigOptions.from_keywords(inputs=["IN:FP32[3]", "B:INT32[1]"], outputs="OUT:FP32[3]")
    workspace.load("m", SOURCE, options=options)
    eventually(lambda: list(form.inputs) == ["IN", "B"])
    assert form.widget.children[1] is form.form.box and form.form.request_id.value == "mine"
    eventually(lambda: all(widget.comm is None for widget in widgets))  # ipywidgets keeps what is not closed
    assert form.send().request.inputs["IN"].shape == (3,)
    form.keys._handle_custom_msg({"kind": "drop", "input": 1, "files": [{"name": "b.csv", "size": 1}]}, [b"4"])
    assert "b.csv: INT32 [1]" in form.inputs["B"].note.value
    assert list(forms[0].inputs) == ["IN"]  # one of the cells that ran long ago
    workspace.unload("m")
    assert form.renew() is False and list(form.inputs) == ["IN", "B"]
    for each in forms:
        states.leave(each.renew)


def test_the_last_answer_is_in_the_stored_form(playground: Playground, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    monkeypatch.setattr(widget, "_display", lambda bundle, **how: displayed.append((bundle, how)))
    monkeypatch.setattr(widget, "in_kernel", lambda: True)
    playground._ipython_display_()
    output = displayed[0][1]["display_id"]
    playground.send({"IN": np.ones((1, 1, 2), np.float32)})
    stored, how = displayed[-1]
    assert how == {"display_id": output, "update": True}
    assert "[[[2. 2.]]]" in stored["text/html"] and "OUT" in stored["text/plain"]
    playground._ipython_display_()
    playground.send({"IN": np.zeros((1, 1, 2), np.float32)})
    assert displayed[-1][1]["display_id"] != output  # the output before keeps its moment


def test_a_program_asks_the_ports_that_are_open(workspace: Workspace) -> None:
    options = ConfigOptions.from_keywords(inputs="IN:FP32[2]", outputs="OUT:FP32[2]")
    playground = Playground(workspace.load("m", SOURCE, options=options), ports=lambda: workspace.ports.endpoints)
    ports = workspace.ports.open(http_port=0, grpc_port=0, metrics=False)
    playground.programs.choice.value = "curl"
    answer = subprocess.run(["bash", "-c", playground.programs.text.value], capture_output=True, check=True)
    assert [output["name"] for output in json.loads(answer.stdout)["outputs"]] == ["OUT"]
    assert ports.grpc in playground.copy_as("tritonclient gRPC").text
    workspace.ports.close()
    assert "localhost:8001" in playground.copy_as("tritonclient gRPC").text


def test_a_program_for_a_model_of_another_server_has_not_the_ports_of_the_notebook(
    workspace: Workspace, tmp_path: Path
) -> None:
    options = ConfigOptions.from_keywords(inputs="IN:FP32[2]", outputs="OUT:FP32[2]")
    model = workspace.load("m", SOURCE, options=options)
    ports = workspace.ports.open(http_port=0, grpc=False, metrics=False)
    shutil.copytree(model.directory, tmp_path / "others" / "m")
    with Server(tmp_path / "others") as other:
        texts = [open_playground(workspace, each).copy_as("curl").text for each in (model, other.model("m"))]
    assert [ports.http in text for text in texts] == [True, False]
    workspace.ports.close()


@pytest.mark.parametrize("mode", ["Random", "Typed", "File"])
def test_bf16_reaches_the_model(workspace: Workspace, mode: str) -> None:
    options = ConfigOptions.from_keywords(max_batch_size=4, inputs="IN:BF16[2]", outputs="OUT:BF16[2]")
    playground = Playground(workspace.load("m", BF16, options=options))
    row = playground.inputs["IN"]
    if mode == "File":
        row.drop([InputFile("in.csv", b"1.5, -3")])
        assert "BF16 [1, 2]" in row.note.value
    elif mode == "Typed":
        row.text.value = "1.5, -3"
    outcome = playground.send()
    assert not outcome.failed, outcome.error
    values = outcome.arrivals[0].response.outputs["OUT"].to_dict()["values"]
    assert values == ([[1.5, -3]] if mode != "Random" else outcome.request.inputs["IN"].to_dict()["values"])


def test_an_answer_is_kept(playground: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITONLAB_NOTEBOOK", str(tmp_path / "book.ipynb"))
    playground.keep_button.click()
    assert "send the request first" in playground.result.value
    playground.send()
    playground.keep_button.click()
    assert "book.golden/m/001.json" in playground.result.value
    assert GoldenSet().cases("m")[0].request.inputs["IN"].shape == (1, 1, 2)


def test_what_was_sent_can_be_sent_again(playground: Playground, workspace: Workspace) -> None:
    sent = playground.send({"IN": np.ones((1, 1, 2), np.float32)})
    assert playground.replay(sent).same
    options = ConfigOptions.from_keywords(max_batch_size=8, inputs="IN:FP32[-1,2]", outputs="OUT:FP32[-1,2]")
    workspace.load("m", SOURCE.replace("* 2", "* 3"), options=options)
    history = playground.other.history
    history.choice.value = 0
    assert "[[[2. 2.]]]" in playground.result.value
    history.button.click()
    for thread in threading.enumerate():
        if thread.name == "playground compare":
            thread.join(30)
    assert "OUT" in playground.result.value and "largest difference 1 (0.33 relative)" in playground.result.value
    assert "<th>then</th><th>now</th>" in playground.result.value


def test_two_servers_are_compared(workspace: Workspace, tmp_path: Path) -> None:
    options = ConfigOptions.from_keywords(inputs="IN:FP32[2]", outputs="OUT:FP32[2]")
    playground = Playground(workspace.load("m", SOURCE, options=options), ports=lambda: workspace.ports.endpoints)
    playground.inputs["IN"].text.value = "1, 2"
    with pytest.raises(ValueError, match="%triton serve opens them"):
        playground.compare("HTTP")
    workspace.ports.open(http_port=0, grpc_port=0, metrics=False)
    for word in ("HTTP", "gRPC"):
        comparison = playground.compare(word)
        assert comparison.same and str(comparison) == "the same\nOUT: equal"
        assert f"<th>{word} 127.0.0.1:" in playground.result.value
    with Server(tmp_path, model_control_mode="explicit") as server:
        other = Workspace(server, tmp_path)
        other.load("m", SOURCE.replace("* 2", "* 2.5"), options=options)
        with tritonlab.serve(server, http_port=0, grpc=False, metrics=False, token="") as ports:
            comparison = playground.compare(ports.http)
        assert not comparison.same
        assert str(comparison.tensors[0]) == "OUT: differs, largest difference 1 (0.2 relative), first at [0]"
        assert comparison.outcomes[1].split is not None
        other.close()
    playground.other.button.click()
    for thread in threading.enumerate():
        if thread.name == "playground compare":
            thread.join(30)
    assert "name a server to compare with" in playground.result.value
    workspace.ports.close()


def test_optional_inputs_are_sent_on_request(workspace: Workspace) -> None:
    options = ConfigOptions.from_keywords(inputs=["A:FP32[1]", "B:FP32[1]?"], outputs="OUT:FP32[1]")
    playground = Playground(workspace.load("m", answers("x * 2", reads="A"), options=options))
    assert sorted(playground.send().request.inputs) == ["A"]
    playground.inputs["B"].sent_box.value = True
    assert sorted(playground.send().request.inputs) == ["A", "B"]
