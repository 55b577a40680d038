"""The texts of `%triton statistics`, `%triton metrics` and `%triton trace`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.models import counts
from tests.notebook.conftest import IDENTITY, IDENTITY_OPTIONS, Notebook
from tritonlab.core.metrics.infer_stats import ExecuteTimes, InferStats
from tritonlab.notebook.views.card.statistics_text import statistics_text


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
    lines = notebook.run("%triton metrics one").text.splitlines()
    assert 'rows{by="one"} 1' in lines
    assert not [line for line in lines if "two" in line]
