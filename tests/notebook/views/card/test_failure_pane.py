"""The pane of a failure: what it shows without a kernel, and what its buttons do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tritonlab.runtime  # noqa: F401 - hands the writer of tests in
from tests.serving import Lab, config
from tritonlab.core.observe.failure_capsule import MOST_TENSOR
from tritonlab.core.status import ModelError
from tritonlab.notebook.model import ShownFailure
from tritonlab.notebook.shell.running_cell import show_failures
from tritonlab.notebook.views.card.failure_pane import FailurePane
from tritonlab.server.api.failures import KeptFailure
from tritonlab.server.api.model import Model

FAILING = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        x = pb_utils.get_input_tensor_by_name(requests[0], "X").as_numpy()
        note = "<b>bold</b>"
        return self.check(x)

    def check(self, x):
        if x[0] < 0:
            raise ValueError("<i>negative</i>")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)])]
"""
SHAPES = config("X FP32 -1", "Y FP32 -1")


@pytest.fixture
def model(lab: Lab) -> Model:
    return lab.load("paned", FAILING, SHAPES)


def failed(model: Model, *values: float) -> KeptFailure:
    with pytest.raises(ModelError):
        model(X=np.float32(values))
    return model.failures[-1]


def cite(text: str) -> str:
    """Return the text with the places of a cell, in which each line is one further down."""
    return re.sub(r'File "[^"]*", line (\d+)', lambda found: f"Cell In[7], line {int(found[1]) + 1}", text)


def test_the_html_has_the_cells_lines(model: Model) -> None:
    pane = FailurePane(failed(model, -1, 2), cite)
    html = pane.html()
    assert "Cell In[7], line 13, in check" in html and "Cell In[7], line 9, in execute" in html
    # a page that drops styles keeps the indentation
    assert re.search(r"<pre class='tl-lines'>[^<]*  12          if x\[0\] &lt; 0:\n<b class='tl-bad'>→  13  ", html), (
        html
    )
    assert "→  13" in html and "→   9" in html
    assert html.index("in check") < html.index("in execute")  # the innermost first, and open
    assert "<i>" not in html and "ValueError: &lt;i&gt;negative&lt;/i&gt;" in html
    assert "&#x27;&lt;b&gt;bold&lt;/b&gt;&#x27;" in html
    assert "float32[2] [-1, 2]" in html
    assert "<td class='tl-shape'>[2]</td>" in html and "[-1., 2.]" in html
    assert "<button" not in html  # nobody would hear it


def test_a_file_that_was_shortened_meanwhile_has_no_text_of_the_line(model: Model) -> None:
    capsule = failed(model, -1).capsule
    frame = capsule.frames[-1]
    cut = frame._replace(source=frame.source[: frame.line - frame.start])
    html = FailurePane(KeptFailure(model, replace(capsule, frames=(cut,))), cite).html()
    assert "Cell In[7], line 13, in check" in html and "→" not in html


def test_the_text_twin_has_the_facts(model: Model) -> None:
    bundle = FailurePane(failed(model, -1))._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("ValueError: <i>negative</i>\n  in execute, execution ")
    assert "    x = float32[1] [-1]" in bundle["text/plain"]


def test_the_same_for_programs(model: Model) -> None:
    facts = json.loads(json.dumps(FailurePane(failed(model, -1), cite).to_dict()))
    assert facts["places"] == ["Cell In[7], line 9, in execute", "Cell In[7], line 13, in check"]
    assert facts["exception"]["type"] == "ValueError" and facts["replayed"] is None


def test_a_large_tensor_is_cut_and_says_so(model: Model) -> None:
    failure = failed(model, *[-1] * (MOST_TENSOR // 4 + 1))
    pane = FailurePane(failure)
    assert "cut: too large to be kept" in pane.html()
    pane.press("replay")
    assert "was too large to be kept" in pane.state["result"] and not pane.state["good"]
    pane.press("pytest")
    assert "was too large to be kept" in pane.state["result"] and not pane.state["snippet"]


def test_a_batch_says_which_is_which(model: Model) -> None:
    failure = failed(model, -1)
    (request,) = failure.capsule.requests
    several = tuple(replace(request, request_id=f"r{number}") for number in range(10))
    html = FailurePane(KeptFailure(model, replace(failure.capsule, requests=several, left_out=3))).html()
    assert "What was sent: 13 requests in one batch" in html
    assert "1. r0" in html and "8. r7" in html and "and 5 more" in html


def test_replay(lab: Lab, model: Model) -> None:
    pane = FailurePane(failed(model, -1))
    pane.press("replay")
    assert pane.state["result"] == "It fails the same: ValueError: <i>negative</i>"
    lab.load("paned", FAILING.replace("x[0] < 0", "x[1] < 0"), SHAPES)
    pane.press("replay")
    assert pane.state["result"].startswith("It fails in another way: IndexError")
    lab.load("paned", FAILING.replace("x[0] < 0", "False"), SHAPES)
    pane.press("replay")
    assert pane.state["good"] and pane.state["result"].endswith("ms. Y FP32 [1] [-1.]")
    assert "Answered in" in pane.text() and "Answered in" in pane.html()


def test_the_test_of_it(model: Model) -> None:
    pane = FailurePane(failed(model, -1))
    pane.press("pytest")
    assert "def test_paned_failure():" in pane.state["snippet"]
    assert [file["name"] for file in pane.state["files"]] == ["test_paned_failure.py", "test_paned_failure.npz"]


def test_the_test_of_it_finds_the_notebooks_ports_and_their_token(model: Model) -> None:
    ports = SimpleNamespace(http="", grpc="127.0.0.1:4321", headers={}, header_file="/private/token")
    pane = FailurePane(failed(model, -1), ports=lambda: ports)
    pane.press("pytest")
    assert '"TRITON_GRPC", "127.0.0.1:4321"' in pane.state["snippet"]
    assert "/private/token" in pane.state["snippet"] and "headers=headers" in pane.state["snippet"]
    failure = ShownFailure(model, pane.failure.capsule, ports=lambda: ports)
    assert failure.to_pytest().text == pane.state["snippet"]


def test_a_failure_without_a_request(model: Model) -> None:
    capsule = replace(failed(model, -1).capsule, requests=(), frames=(), phase="finalize", batch_id=0)
    pane = FailurePane(KeptFailure(model, capsule))
    assert "FAILED IN FINALIZE" in pane.html()
    pane.press("replay")
    assert "failed in finalize, without a request" in pane.state["result"]
    pane.press("unknown")


class Events:
    def __init__(self) -> None:
        self.callbacks: dict[str, list[Any]] = {"post_run_cell": []}

    def register(self, name: str, callback: Any) -> None:
        self.callbacks[name].append(callback)

    def unregister(self, name: str, callback: Any) -> None:
        self.callbacks[name].remove(callback)


class Result:
    def __init__(self, error: BaseException | None) -> None:
        self.error_in_exec = error


def test_the_notice_shows_what_the_cell_raised(model: Model) -> None:
    shell = type("Shell", (), {"events": Events()})()
    displayed: list[Any] = []
    show_failures(shell, displayed.append)
    show_failures(shell, displayed.append)
    (notice,) = shell.events.callbacks["post_run_cell"]
    with pytest.raises(ModelError) as caught:
        model(X=np.float32([-1]))
    for error in (None, ValueError(), ModelError("no capsule"), caught.value):
        notice(Result(error))
    assert displayed == [model.failures[-1].capsule]
