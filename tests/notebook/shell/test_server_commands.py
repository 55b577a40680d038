"""`%triton serve`, `why`, `statistics`, `metrics` and `trace`: what they print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models import IDENTITY, answers, counts
from tests.notebook.conftest import IDENTITY_OPTIONS, Notebook
from tests.serving import eventually
from tritonlab.core.metrics.infer_stats import ExecuteTimes, InferStats
from tritonlab.notebook.shell.server_commands import statistics_text

#: a name of its own, because the notebooks of all tests have one server
MODEL = f"%%triton_model awaited {IDENTITY_OPTIONS} --quiet\n{answers('x')}"


@pytest.fixture
def why(notebook: Notebook) -> Any:
    def why(line: str = "") -> str:
        return repr(notebook.run(f"%triton why {line}").result)

    return why


def test_why_names_cells_and_fixes(notebook: Notebook, why: Any) -> None:
    notebook.run(MODEL)
    assert why("awaited") == "Nothing waits in model 'awaited': no request is in flight, no load goes on."
    notebook.run(f"{MODEL}\nimport nowhere_at_all")
    number, line = notebook.number(), MODEL.count("\n") + 2
    text = why("awaited")
    assert "the last load of model 'awaited' failed: ModuleNotFoundError: No module named 'nowhere_at_all'." in text
    assert f"  At Cell In[{number}], line {line}." in text
    assert "  Fix: %pip install brings one that others wrote, %%triton_file MODEL nowhere_at_all.py writes" in text
    reason = json.loads(repr(notebook.run("%triton why awaited --json").result))["reasons"][0]
    assert (reason["kind"], reason["where"]) == ("load", f"Cell In[{number}], line {line}")
    assert "The version from before serves on." in why("awaited")
    notebook.run(MODEL)
    # once the version from before has ended
    eventually(lambda: why("awaited").startswith("Nothing waits in model 'awaited'"))
    assert not notebook.run("%triton why nothing").success


def test_no_lines_of_logs(notebook: Notebook) -> None:
    notebook.run(MODEL.replace("responses = []", "responses = []\n        print('hello')"))
    notebook.run("awaited(IN=[[1.0]])")
    assert repr(notebook.run("%triton logs awaited -n 1").result) == "awaited_0  hello"
    assert repr(notebook.run("%triton logs awaited -n 0").result) == "no output"


def test_logs_of_one_request(notebook: Notebook) -> None:
    talking = MODEL.replace("responses = []", "responses = []\n        print([r.request_id() for r in requests])")
    notebook.run(talking)
    for name in ("one", "two"):
        notebook.run(f"next(awaited.infer(inputs={{'IN': [[1.0]]}}, request_id='{name}'))")
    assert repr(notebook.run("%triton logs awaited --request two").result).endswith("['two']")
    assert repr(notebook.run("%triton logs awaited --request three").result) == "no output"
    (line,) = json.loads(repr(notebook.run("%triton logs awaited --request one --json").result))["lines"]
    assert line["request_ids"] == ["one"] and len(line["serials"]) == 1


def test_counts_and_means() -> None:
    stats = InferStats()
    stats.record_batch(3, [1_000, 3_000], [10_000, 20_000], ExecuteTimes(1_000, 4_000, 2_000), 0, 0)
    stats.record_rejected("REJECTED", 7_500)
    assert statistics_text({"model_stats": [stats.to_dict("m", 1), InferStats().to_dict("n", 2)]}).splitlines() == [
        "m version 1: 3 inferences in 1 execution",
        "  success               2          15.0 µs on average",
        "  fail                  1           7.5 µs on average",
        "  queue                 2           2.0 µs on average",
        "  compute_input         2           1.0 µs on average",
        "  compute_infer         2           4.0 µs on average",
        "  compute_output        2           2.0 µs on average",
        "  batch of 3            1           4.0 µs compute_infer",
        "",
        "n version 2: 0 inferences in 0 executions",
    ]
    assert statistics_text({"model_stats": []}) == "no model is loaded"


def test_the_commands(notebook: Notebook, tmp_path: Path) -> None:
    notebook.run(f"%%triton_model seen {IDENTITY_OPTIONS} --quiet\n{IDENTITY}")
    file = tmp_path / "trace.json"
    assert "nothing is traced" in notebook.run("%triton trace").text
    assert notebook.run(f"%triton trace {file}").success
    notebook.run("%triton infer seen IN=[[1.0]]")
    assert str(file) in notebook.run("%triton trace").text
    names = {event["name"] for event in json.loads(file.read_text())["traceEvents"]}
    assert {"execute 1", "queue", "final response"} <= names
    assert "seen version 1: 1 inference in 1 execution" in notebook.run("%triton statistics seen").text
    lines = notebook.run("%triton metrics seen").text
    assert 'nv_inference_count{model="seen",version="1"} 1' in lines
    assert "nv_cpu_utilization" not in lines
    assert "nv_cpu_utilization" in notebook.run("%triton metrics").result.text


COUNTS = counts("rows", '{"by": args["model_name"]}')


def test_custom_metrics_are_those_of_the_model_that_made_them(notebook: Notebook) -> None:
    for name in ("one", "two"):
        notebook.run(f"%%triton_model {name} {IDENTITY_OPTIONS} --quiet\n{COUNTS}")
    notebook.run("%triton infer one IN=[[1.0]]")
    result = notebook.run("%triton metrics one")
    lines = result.text.splitlines()
    assert lines.index('rows{by="one"} 1') < min(n for n, line in enumerate(lines) if line.startswith("nv_"))
    first, folded = result.result._repr_html_().split("<details")  # in a browser Triton's own are folded
    assert "rows{" in first and "nv_" not in first and "nv_inference_count" in folded and "rows" not in folded
    assert not [line for line in lines if "two" in line]


def test_a_line_that_no_shell_can_read_is_refused(notebook: Notebook) -> None:
    text = notebook.run('%triton serve --http-port "8000').text
    assert text.strip() == """UsageError: '--http-port "8000' cannot be read: No closing quotation"""
