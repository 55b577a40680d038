from __future__ import annotations

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.models import executes
from tests.pictures import read, texts
from tests.serving import Lab, config
from tritonlab.notebook.views.record.metrics import Metrics
from tritonlab.record.metric_record import MetricRecord
from tritonlab.record.recorder import Recorder
from tritonlab.record.recording import Recording

SOURCE = executes(
    """
    for request in requests:
        tensor = request.inputs()[0]
        self.rows.increment(len(tensor.as_numpy()))
        self.size.set(tensor.as_numpy().sum())
        self.took.observe(1.5)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]
    """,
    initialize="""
    self.families = [
        pb_utils.MetricFamily(name="view_rows_total", description="rows seen", kind=pb_utils.MetricFamily.COUNTER),
        pb_utils.MetricFamily(name="view_size", description="", kind=pb_utils.MetricFamily.GAUGE),
        pb_utils.MetricFamily(name="view_took", description="time", kind=pb_utils.MetricFamily.HISTOGRAM),
    ]
    self.rows, self.size = (family.Metric(labels={"part": "a"}) for family in self.families[:2])
    self.took = self.families[2].Metric(labels={}, buckets=[1, 2])
    """,
)


@pytest.fixture
def recording() -> Recording:
    recording = Recording()
    metrics = recording.metrics
    metrics.describe("hits_total", "counter", "hits")
    metrics.describe("took", "histogram", "")
    for second in range(5):
        metrics.add("hits_total", {"part": "a"}, 3.0 * second, second * 1_000_000_000)
        metrics.add("took", {}, float(second), second * 1_000_000_000)
    return recording


def test_the_text_states_the_facts(recording: Recording) -> None:
    assert repr(Metrics(recording, "add")).splitlines() == [
        "Custom metrics: 2 label sets.",
        "  hits_total{part=a} 12 (3 a second over 4 s)",
        "  took 5 observed, median 2, 95% below 4",
        "  warning: took has no description",
    ]
    assert repr(Metrics(Recording(), "add")) == "Custom metrics: none has changed yet."
    recording.metrics.add("hits_total", {"part": "a"}, 1_234_567.0, 5_000_000_000)
    recording.metrics.describe("held", "bytes", "memory")
    recording.metrics.add("held", {}, float(1500 << 20), 0)
    text = repr(Metrics(recording, "add"))
    assert "held 1,500 MiB" in text and "{part=a} 1,234,567 (246,913 a second over 5 s)" in text


def test_the_figure_has_a_line_for_each_series(recording: Recording) -> None:
    svg, legend = read(Metrics(recording, "add").figure())
    assert [len(line.get("points", "").split()) for line in svg.iter("polyline")] == [10]  # it keeps a value: steps
    assert len(list(svg.iter("circle"))) == 5
    assert legend == ["value", "observation"] and texts(svg)[-1].startswith("time of day, ")
    scale, now = ["0", "12"], ["12", "3 a second"]
    assert texts(svg)[:6] == ["hits_total", "{part=a}", *now, *scale]
    assert Metrics(Recording(), "add").figure() == ""


def test_what_will_hurt_in_production_is_reported() -> None:
    record = MetricRecord()
    record.describe("nv_mine", "gauge", "mine")
    record.describe("hits", "counter", "hits")
    for user in range(100):
        record.add("users", {"user": str(user)}, 1, 0)
    assert record.warnings() == [
        "nv_mine: names that begin with nv_ are Triton's own",
        "users: 100 sets of labels; each is a series of its own in Prometheus",
        "hits: a counter's name ends with _total by Prometheus's convention",
    ]


def test_series_without_end_do_not_fill_the_memory() -> None:
    record = MetricRecord(changes=2)
    for user in range(1_005):
        record.add("users", {"user": str(user)}, 1, 0)
    assert (len(record.series()), record.refused) == (1_000, 5)
    assert record.warnings()[-1] == "5 changes of further series are not kept: there are more than 1000"


def test_the_browser_gets_what_it_does_not_have(recording: Recording) -> None:
    view = Metrics(recording, "add")
    message, buffers = view.news()
    assert message is not None
    assert [(row["name"], row["number"], row["at"]) for row in message["rows"]] == [
        ("hits_total", 0, 0),
        ("took", 1, 0),
    ]
    assert np.frombuffer(buffers[1]).reshape(-1, 2)[:, 1].tolist() == [0, 1, 2, 3, 4]
    assert message["families"]["took"] == ("histogram", "")
    assert view.news() == (None, [])
    recording.metrics.add("took", {}, 9, 5)
    message, buffers = view.news()
    assert message is not None
    assert [(row["number"], row["at"]) for row in message["rows"]] == [(1, 5)]
    view._resume({"epoch": message["epoch"], "rows": {"0": 5, "1": 3}})
    message, _ = view.news()
    assert message is not None
    assert [(row["number"], row["at"]) for row in message["rows"]] == [(1, 3)]


def test_the_view_shows_what_prometheus_scrapes(lab: Lab) -> None:
    Recorder.for_instruments(lab.server.instruments)
    model = lab.load("measured", SOURCE, config("IN FP32 -1", "OUT FP32 -1"))
    view = model.view("metrics")
    for size in (3, 2):
        model(IN=np.ones(size, np.float32))
    scraped = {
        sample.name: sample.value
        for family in text_string_to_metric_families(lab.server.metrics())
        for sample in family.samples
        if sample.labels.get("part") == "a" or sample.labels.get("model") == "measured"
    }
    message, buffers = view.news()
    assert message is not None
    last = {row["name"]: np.frombuffer(data)[-1] for row, data in zip(message["rows"], buffers, strict=True)}
    for name in ("view_rows_total", "view_size", "nv_inference_request_success", "nv_inference_exec_count"):
        assert last[name] == scraped[name if name in scraped else f"{name}_total"], name
    failures = [row["labels"] for row in message["rows"] if row["name"] == "nv_inference_request_failure"]
    reasons = ("BACKEND", "CANCELED", "OTHER", "REJECTED")
    assert sorted(map(dict, failures), key=str) == [{"version": "1", "reason": reason} for reason in reasons]
    assert message["families"]["view_rows_total"] == ("counter", "rows seen")
    assert "  view_took 2 observed, median 1.5, 95% below 1.5" in repr(view).splitlines()
    assert "view_size has no description" in repr(view)
    lab.server.unload(model)
