from __future__ import annotations

import re

import pytest

from tests.models import SILENT, executes
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views.card.model_facts import instance_troubles, model_facts
from tritonlab.notebook.views.card.status_table import memory_lines, memory_text, status_table
from tritonlab.server.api.model import Model
from tritonlab.server.observe.idle_memory import MemoryUse


def test_the_facts_of_a_loaded_model(workspace: Workspace) -> None:
    options = ConfigOptions(
        max_batch_size=8,
        instances=2,
        dynamic_batching=50,
        inputs=("A:FP32[3,-1]", "B:STRING[1]?"),
        outputs=("C:INT8[1]",),
    )
    facts = model_facts(workspace, workspace.load("m", "print('hello')\n" + SILENT, options=options))
    assert facts.state == "READY" and facts.version == 1 and facts.kept == ""
    assert facts.instances == "2 instances on CPU"
    assert facts.batching == "dynamic batching up to 8, delay 50 µs"
    assert [(t.name, t.datatype, t.shape, t.optional) for t in facts.inputs] == [
        ("A", "FP32", "[batch ≤ 8, 3, any]", False),
        ("B", "BYTES", "[batch ≤ 8, 1]", True),
    ]
    assert [(t.name, t.shape) for t in facts.outputs] == [("C", "[batch, 1]")]
    assert facts.warnings == ()
    assert "hello" in [record.text for record in facts.log]


def test_why_a_model_imports_again(workspace: Workspace) -> None:
    plain = model_facts(workspace, workspace.load("m", "import psutil\n" + SILENT))
    late = model_facts(workspace, workspace.load("m", "import os\nos.umask(os.umask(0))\nimport psutil\n" + SILENT))
    assert plain.imports_again == ""
    assert late.imports_again == "'psutil', because model.py, line 2 comes first and may change what it does"


def test_what_will_not_work_is_a_warning(workspace: Workspace) -> None:
    model = workspace.load("m", "class TritonPythonModel:\n    pass\n", options=ConfigOptions(dynamic_batching=True))
    warnings = "\n".join(model_facts(workspace, model).warnings)
    assert "dynamic_batching does nothing while max_batch_size is 0" in warnings
    assert "The config has no input" in warnings and "The config has no output" in warnings
    assert "model.py has no execute()" in warnings


def test_another_version_than_the_one_written_is_a_warning(workspace: Workspace) -> None:
    workspace.load("m", SILENT, version=3)
    warnings = "\n".join(model_facts(workspace, workspace.load("m", SILENT, version=2)).warnings)
    assert "Version 3 is served; version 2 was written last" in warnings


def test_an_instance_that_does_not_run_is_listed_with_its_next_try() -> None:
    state = {"name": "m_0", "state": "ready", "failure": "", "last_death": "", "next_try": None}
    failed = {**state, "state": "failed", "failure": "it could not be started again: no weights.", "next_try": 4.0}
    started = {**state, "state": "restarting", "last_death": "It ended."}
    assert instance_troubles([state, failed, started]) == [
        "'m_0' does not run: it could not be started again: no weights. Next try in 4 s.",
        "'m_0' is being started again: It ended.",
    ]


def test_the_status_says_what_is_in_memory(workspace: Workspace) -> None:
    workspace.load("m", SILENT)
    table = status_table(workspace)
    text = table.memory
    assert re.match(r"memory: \d+ MB in this kernel, \d+ MB in 1 model process", text), text
    assert memory_text(MemoryUse(210 << 20, 96 << 20, 3, 680 << 20, 1.0)).startswith(
        "memory: 210 MB in this kernel, 96 MB in 3 model processes; 680 MB given back at "
    )
    assert text in repr(table) and text in table.html()
    assert memory_text(MemoryUse(1 << 20, 1 << 20, 1, warm=80 << 20, warm_limit=6 << 30, imports=("torch",))) == (
        "memory: 1 MB in this kernel, 1 MB in 1 model process, 80 of at most 6144 MB kept warm (torch)"
    )
    busy = MemoryUse(
        kernel=210 << 20,
        models=1200 << 20,
        processes=3,
        given_back=680 << 20,
        given_back_at=1.0,
        warm=80 << 20,
        warm_limit=6 << 30,
        imports=("torch",),
    )
    first, second, third = memory_lines(busy)
    assert first == "This kernel uses 210 MB of memory, its 3 model processes use 1,200 MB."
    assert second == "80 MB are kept for quick loads, in processes with torch imported; at most 6,144 MB may be."
    assert third.startswith("680 MB were given back to the machine at ")


def test_the_status_gives_no_reason_for_what_was_unloaded(workspace: Workspace) -> None:
    workspace.load("m", SILENT)
    workspace.unload("m")
    rows = [row for row in status_table(workspace).rows if row.name == "m"]
    assert {(row.state, row.reason) for row in rows} == {("UNLOADED", "")}


def test_the_status_says_so_too(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace.load("m", SILENT)
    row = next(row for row in status_table(workspace).rows if row.name == "m")
    assert (row.state, row.reason) == ("READY", "")
    failed = {"name": "m_0", "kind": "CPU", "state": "failed", "failure": "no weights."}
    failed |= {"last_death": "", "next_try": 4.0}
    monkeypatch.setattr(Model, "instances", lambda model: [failed])
    row = next(row for row in status_table(workspace).rows if row.name == "m")
    assert (row.state, row.reason) == ("NOT READY", "'m_0' does not run: no weights. Next try in 4 s.")


ODD = executes(
    'tensors = [pb_utils.Tensor("OUT", np.zeros(1)), pb_utils.Tensor("OTU", np.zeros(1))]\n'
    "return [pb_utils.InferenceResponse(tensors) for _ in requests]"
)


def test_what_triton_would_pass_on_unsaid_is_in_card_and_log_once(workspace: Workspace) -> None:
    options = ConfigOptions(outputs=("OUT:FP32[1]",))
    model = workspace.load("m", ODD, options=options)
    for _ in range(3):
        list(model.infer(inputs={}))
    expected = [
        "Triton checks no outputs: 'OTU' is not an output of the config and was dropped.",
        "Triton checks no outputs: 'OUT' is FP64 where the config says FP32.",
    ]
    assert [warning for warning in model_facts(workspace, model).warnings if "outputs: " in warning] == expected
    assert [r.text for r in workspace.server.logs("m") if r.text.startswith("Triton checks")][-2:] == expected
    again = workspace.load("m", ODD.replace("np.zeros(1)", "np.zeros(1, np.float32)"), options=options)
    assert [warning for warning in model_facts(workspace, again).warnings if "outputs: " in warning] == []
    list(again.infer(inputs={}))
    assert [warning for warning in model_facts(workspace, again).warnings if "outputs: " in warning] == expected[:1]
