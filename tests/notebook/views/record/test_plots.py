"""The plots of views: executions, batch sizes, metrics."""

from __future__ import annotations

import pytest

from tests.plots import closed_figures, drawn, facts
from tests.record.events import RecorderHooks, make_request
from tritonlab.core.status import InvalidArgumentError, UnavailableError
from tritonlab.notebook.views.record.memory import Memory
from tritonlab.notebook.views.record.metrics import Metrics
from tritonlab.notebook.views.record.streams import Streams
from tritonlab.notebook.views.record.timeline import Timeline
from tritonlab.record.live_state import InstanceMemory
from tritonlab.record.recording import Recording

__all__ = ["closed_figures"]


@pytest.fixture
def timeline() -> Timeline:
    hooks = RecorderHooks()
    hooks.execute(make_request(1, at=0), make_request(2, at=1), start=5, end=9)
    hooks.execute(make_request(3, at=2), start=9, end=11, instance="add_0_1", failed=True)
    hooks.execute(make_request(4, at=7), start=12, end=14)
    return Timeline(hooks.recording, "add")


def test_executions_are_lanes_over_the_time_of_day(timeline: Timeline) -> None:
    ax = drawn(timeline.plot)
    assert facts(ax) == {
        "title": "Executions of add",
        "x": "time of day",
        "y": "instance",
        "legend": ["a request that waits", "execution", "failed"],
    }
    assert [text.get_text() for text in ax.get_yticklabels()] == ["add_0_0", "add_0_1"]
    assert [bar.get_y() for bar in ax.patches] == [0, 0, 1]
    assert [len(found.get_paths()) for found in ax.collections] == [4]


def test_streams_are_lanes_with_a_mark_for_each_response() -> None:
    hooks = RecorderHooks()
    one, other = make_request(1, at=0, request_id="one"), make_request(2, at=5)
    for request in (one, other):
        hooks.respond(request, at=10, outputs=request.inputs, final=False)
    hooks.respond(one, at=20, empty=True)
    hooks.execute(one, start=2, end=21)
    ax = drawn(Streams(hooks.recording, "add").plot)
    assert facts(ax) == {
        "title": "Streams of add",
        "x": "time of day",
        "y": "request",
        "legend": [
            "response",
            "final flag without a response",
            "from the request to its end",
            "final flag not sent yet",
        ],
    }
    assert [text.get_text() for text in ax.get_yticklabels()] == ["one", "request 2"]
    assert [len(line.get_xdata()) for line in ax.lines] == [2, 1]


def test_batch_sizes_are_counted(timeline: Timeline) -> None:
    ax = drawn(timeline.plot_batch_sizes)
    assert facts(ax) == {"title": "Batch sizes of add", "x": "batch size", "y": "executions", "legend": []}
    assert [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in ax.patches] == [(1, 2), (2, 1)]


def test_metrics_are_steps_and_dots_with_their_labels() -> None:
    recording = Recording()
    recording.metrics.describe("hits_total", "counter", "hits")
    recording.metrics.describe("took_seconds", "histogram", "time")
    for second in range(5):
        recording.metrics.add("hits_total", {"part": "a"}, 3.0 * second, second * 1_000_000_000)
        recording.metrics.add("took_seconds", {}, 0.1 * second, second * 1_000_000_000)
    view = Metrics(recording, "add")
    ax = drawn(view.plot)
    assert facts(ax) == {
        "title": "Metrics of add",
        "x": "time of day",
        "y": "value",
        "legend": ["hits_total{part=a}", "took_seconds"],
    }
    assert [(line.get_drawstyle(), line.get_marker()) for line in ax.lines] == [
        ("steps-post", ""),
        ("default", "."),
    ]
    only = view.plot(names="took_seconds")
    assert only.get_ylabel() == "took_seconds" and len(only.lines) == 1
    with pytest.raises(InvalidArgumentError, match="no metric 'took' has a value; those that have one: hits_total, "):
        view.plot(names=["took"])


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_a_metric_that_is_not_finite_leaves_the_curve(odd: float) -> None:
    recording = Recording()
    for second, value in enumerate((1.0, odd, 3.0)):
        recording.metrics.add("loss", {}, value, second * 1_000_000_000)
        recording.metrics.add("lost", {}, odd, second * 1_000_000_000)
    view = Metrics(recording, "add")
    assert "nan," not in view.figure() and ",nan" not in view.figure() and view.figure().count("<polyline") == 1
    assert drawn(view.plot).get_ylim()[0] == 0


def test_memory_is_in_mib() -> None:
    held = InstanceMemory("add_0_0", 1 << 20, 0, 2 << 20, 3 << 20, {})
    ax = drawn(Memory("add", lambda: [held], False).plot)
    assert facts(ax)["y"] == "memory, MiB" and facts(ax)["title"] == "Memory of add"
    assert max(float(line.get_ydata()[-1]) for line in ax.lines) == 3
    assert {line.get_marker() for line in ax.lines} == {"."}  # one moment is not a line
    begin, end = ax.get_xlim()
    assert (end - begin) * 86400 == pytest.approx(1.0, rel=1e-3)


def test_nothing_to_plot_is_an_error() -> None:
    nothing = Timeline(Recording(), "add")
    for plot in (nothing.plot, nothing.plot_batch_sizes):
        with pytest.raises(UnavailableError, match="nothing to plot: no request to 'add' has been executed yet"):
            plot()
    with pytest.raises(UnavailableError, match="nothing to plot: 'add' has had no stream of responses yet"):
        Streams(Recording(), "add").plot()
    with pytest.raises(UnavailableError, match="nothing to plot: no custom metric has changed yet"):
        Metrics(Recording(), "add").plot()
    with pytest.raises(UnavailableError, match="nothing to plot: no instance of the model runs"):
        Memory("add", list, False).plot()
