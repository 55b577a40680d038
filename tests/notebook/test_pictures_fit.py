"""No picture clips a text, or draws over the names of its lanes, however long they are."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from tests.ensembles import graph
from tests.notebook.views.record.test_graph import MODELS, PIPE, ran
from tests.pictures import read
from tests.record.events import RecorderHooks, make_request
from tests.tools.measure.load_testing.fakes import row
from tests.tools.measure.tuning.scheduler_bench import Bench, Sent, config_of
from tests.tools.measure.tuning.test_tune import trial
from tritonlab.core.status import ModelError
from tritonlab.engine.schedulers.sequence_occupancy import Occupancy, SlotUse, WaitingSequence
from tritonlab.figures.svg_picture import text_width
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.notebook.views.figures.graph_figure import graph_figure, sequence_figure
from tritonlab.notebook.views.record.metrics import Metrics
from tritonlab.notebook.views.record.streams import Streams
from tritonlab.notebook.views.record.timeline import Timeline
from tritonlab.record.recording import Recording
from tritonlab.testing import MS
from tritonlab.tools.measure.load_testing.load_result import LoadResult
from tritonlab.tools.measure.tuning.recorded_executions import RecordedExecutions
from tritonlab.tools.measure.tuning.tune_figures import DrawnGain, front_figure, gain_figure
from tritonlab.tools.measure.tuning.what_if import WhatIf

LONG = "a_classifier_of_images_whose_name_is_longer_than_any_column"


def timeline() -> str:
    hooks = RecorderHooks()
    for serial in range(8):
        instance = f"{LONG}_0_{serial % 2}"
        hooks.execute(make_request(serial, at=serial), start=serial * 5, end=serial * 5 + 4, instance=instance)
    return Timeline(hooks.recording, "add").figure()


def streams() -> str:
    hooks = RecorderHooks()
    one = make_request(1, request_id=LONG)
    hooks.respond(one, at=10, outputs=one.inputs, final=False)
    hooks.respond(one, at=4_000_000, error=ModelError("no"))
    hooks.execute(one, start=0, end=4_000_000)
    return Streams(hooks.recording, "add").figure()


def metrics() -> str:
    recording = Recording()
    recording.metrics.describe(f"{LONG}_bytes_total", "counter", "")
    recording.metrics.describe("seen", "histogram", "")
    for second in range(3):
        recording.metrics.add(f"{LONG}_bytes_total", {"stage": LONG}, 1e15 * second, second * 1_000_000_000)
        recording.metrics.add("seen", {}, -1_234_567.0 * second, second * 1_000_000_000)
    return Metrics(recording, "add").figure()


def call_graph() -> str:
    root = ran(LONG, -1, 0, ran("one", 0, 0), ran(LONG, 1, 3, inputs=(LONG, "B")), inputs=("X",))
    return graph_figure(root, graph(PIPE, MODELS))


def failed_call() -> str:
    return graph_figure(ran("alone", -1, 0, failure="no"), None)


def slots() -> str:
    uses = [SlotUse(n, LONG, 12_345, n == 0, 30 * MS) for n in range(4)]
    return sequence_figure(Occupancy(8, 3600_000 * MS, [(LONG, uses)], [WaitingSequence(LONG, 1, 5 * MS)]))


def load_test() -> str:
    rows = [row(10**n, 90_000.0 + n, 1e6 * (n + 1)) for n in range(6)]
    return LoadResult(LONG, "here", "request_rate", rows).figure()


def what_if() -> str:
    config = config_of("max_batch_size: 4 dynamic_batching { } instance_group { count: 1 kind: KIND_CPU }")
    bench = Bench(config, 1, lambda size: 4 * MS, name=LONG)
    bench.run([Sent(MS) for _ in range(20)])
    settings = Settings.from_config(config).changed(instances=2)
    recorded = RecordedExecutions(bench.record)
    return WhatIf(LONG, recorded, config, config, settings, lambda settings: lambda: None).figure()


def gains() -> str:
    gains = [DrawnGain(f"{LONG} 1 → 2", 199.0, 199.0), DrawnGain("delay 0 → 1", -0.9, -0.1, is_noise=True)]
    return gain_figure(gains, "throughput gained, %").svg()


def front() -> str:
    return front_figure(LONG, [], [trial(90_000.0, 123_456, 4), trial(10.0, 1, 4)], 12_345.678).svg()


@pytest.mark.parametrize(
    "draw",
    [timeline, streams, metrics, call_graph, failed_call, slots, load_test, what_if, gains, front],
    ids=lambda one: one.__name__,
)
def test_every_text_is_in_the_picture(draw: Callable[[], str]) -> None:
    root = ElementTree.fromstring(draw())
    left, top, wide, high = map(float, root.get("viewBox", "").split())
    found = [text for text in root.iter("text") if text.get("transform") is None]
    assert found
    for text in found:
        begin, end = _span(text)
        assert left - 0.2 <= begin and end <= left + wide + 0.2, text.text
        assert top <= float(text.get("y", 0)) <= top + high, text.text


@pytest.mark.parametrize("draw", [timeline, streams, what_if, gains], ids=lambda one: one.__name__)
def test_names_of_lanes_have_a_column_of_their_own(draw: Callable[[], str]) -> None:
    root, _ = read(draw())
    names = [text for text in root.iter("text") if text.get("x") == "0.0"]
    marks = [float(mark.get("x", 0)) for mark in root.iter("rect")]
    assert names and marks and max(_span(name)[1] for name in names) < min(marks)
    assert any((name.text or "").startswith("…") and LONG[-8:] in (name.text or "") for name in names) or draw is gains


def _span(text: ElementTree.Element) -> tuple[float, float]:
    """Return where a text begins and ends."""
    wide, x = text_width(text.text or ""), float(text.get("x", 0))
    begin = {"end": x - wide, "middle": x - wide / 2}.get(text.get("text-anchor", ""), x)
    return begin, begin + wide
