from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tritonlab
from tests.ensembles import ensemble_text, step
from tests.models import ADD_SUB, ADD_SUB_CONFIG, executes
from tests.pictures import read, texts
from tests.serving import Lab, lab
from tests.tools.measure.tuning.scheduler_bench import Bench, Sent, config_of
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.status import InvalidArgumentError, UnavailableError
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.tools.measure.tuning.recorded_executions import RecordedExecutions
from tritonlab.tools.measure.tuning.replay import Numbers, ReplayedRequest
from tritonlab.tools.measure.tuning.tuned_model import TunedModel
from tritonlab.tools.measure.tuning.what_if import WhatIf

__all__ = ["lab"]


#: which says nothing about its instances
ANYWHERE = ADD_SUB_CONFIG.replace("instance_group [ { kind: KIND_CPU } ]", "max_batch_size: 4")


@pytest.fixture
def served() -> tuple[ModelConfig, RecordedExecutions]:
    """Return the record of a request each millisecond, of which each batch takes 4 ms."""
    config = config_of("max_batch_size: 4 dynamic_batching { } instance_group { count: 1 kind: KIND_CPU }")
    bench = Bench(config, 1, lambda size: 4_000_000)
    bench.run([Sent(1_000_000) for _ in range(40)])
    return config, RecordedExecutions(bench.record)


def what_if(served: tuple[ModelConfig, RecordedExecutions], applied: list[Settings], **differing: int) -> WhatIf:
    config, past = served

    def reload(settings: Settings) -> Callable[[], object]:
        applied.append(settings)
        return applied.pop

    return WhatIf("m", past, config, config, Settings.from_config(config).changed(**differing), reload)


def test_it_states_the_facts(served: tuple[ModelConfig, RecordedExecutions]) -> None:
    assert repr(what_if(served, [], max_batch_size=2)).splitlines() == [
        "What if m had 1 instance, batches up to 2, delay 0 µs (now 1 instance, batches up to 4, delay 0 µs)?",
        "  p50 6 → 25 ms · p99 8 → 45 ms · 909 → 476 requests/s while busy · batches of 3.64 → 1.9",
        "  40 recorded requests replayed; execution times fitted to 11 executions of sizes 1, 3, 4; "
        "off by 0.0% on average",
    ]


def test_the_rate_is_that_of_the_busy_time() -> None:
    config = config_of("max_batch_size: 4 dynamic_batching { } instance_group { count: 1 kind: KIND_CPU }")
    bench = Bench(config, 1, lambda size: 4_000_000)
    bench.run([Sent(n * 1_000_000_000) for n in (1, 2, 10)])  # a person who tries something now and then
    found = what_if((config, RecordedExecutions(bench.record)), [], max_queue_delay_microseconds=1_000)
    assert found.before.rate < 0.4 and found.before.busy_rate == pytest.approx(250)
    assert found.after.busy_rate == pytest.approx(200, rel=0.01)
    assert " · 250 → 200 requests/s while busy · " in repr(found)
    facts = found.to_dict()["before"]
    assert facts["busy_seconds"] == pytest.approx(0.012) and facts["requests_per_busy_second"] == pytest.approx(250)
    assert Numbers.busy_time(np.array([0.0, 5.0, 1.0]), np.array([2.0, 6.0, 4.0])) == 5  # out of order, overlapping
    assert "busy_seconds" not in Numbers(1.0, 1.0, 1.0, 1.0, 1).to_dict()  # of a load test, which does not know it


def test_the_same_is_json_a_picture_and_a_page(served: tuple[ModelConfig, RecordedExecutions]) -> None:
    found = what_if(served, [], instances=2)
    document = json.loads(json.dumps(found.to_dict()))
    assert document["settings"]["instances"] == 2 and document["now"]["instances"] == 1
    assert document["after"]["p99_ms"] < document["before"]["p99_ms"]
    assert document["notes"] == ["More instances than were recorded are taken not to slow one another down."]
    svg, _ = read(found.figure())
    lanes = [text.text for text in svg.iter("text") if text.get("x") == "0.0"]
    assert lanes == ["m_0_0", "what if", "instance 2", "what if"]
    blocks = [rect.get("fill") for rect in svg.iter("rect")]
    assert blocks.count("#1976d2") == len(served[1].batch_column("size"))
    assert blocks.count("#8e5bd0") == len(found.replayed_batches.start)
    assert "count: 2" in found.html() and "p99 8 → " in found.html()


def test_a_result_keeps_no_requests(served: tuple[ModelConfig, RecordedExecutions]) -> None:
    """A notebook keeps what its cells return, and 30,000 requests were 18 MB."""

    def count() -> int:
        gc.collect()
        return sum(issubclass(type(one), ReplayedRequest) for one in gc.get_objects())

    bench, before = Bench(served[0], 1, lambda size: 4_000_000), count()
    bench.run([Sent(1_000_000) for _ in range(40)])
    past = RecordedExecutions(bench.record)
    found = what_if((served[0], past), [], instances=2)
    assert count() == before + 40
    del past
    assert count() == before
    assert found.after.requests == 40 and found.figure() and "p99" in found.text()


def test_the_picture_says_what_its_lanes_colours_and_numbers_are(
    served: tuple[ModelConfig, RecordedExecutions],
) -> None:
    found = what_if(served, [], instances=2)
    svg, legend = read(found.figure())
    assert legend == ["recorded, with the batch size", "what if"]
    assert texts(svg)[-1].startswith("time of day, ") and texts(svg)[-1].endswith("; 10 ms between two marks")
    bench = Bench(served[0], 1, lambda size: 4_000_000, name="a_model_with_a_name_that_is_long")
    bench.run([Sent(1_000_000)])
    svg, _ = read(what_if((served[0], RecordedExecutions(bench.record)), []).figure())
    (name,) = (text for text in svg.iter("text") if text.text and text.text.startswith("…"))
    assert name.text == "…ith_a_name_that_is_long_0_0"
    assert [title.text for title in name.iter("title")] == ["a_model_with_a_name_that_is_long_0_0"]


def test_it_is_applied_when_somebody_says_so(served: tuple[ModelConfig, RecordedExecutions]) -> None:
    applied: list[Settings] = []
    found = what_if(served, applied, max_queue_delay_microseconds=700)
    assert applied == []
    text = repr(found.apply())  # without quotes, as a cell shows it
    assert [settings.delay_us for settings in applied] == [700]
    assert text == f"'{found.name}' is loaded with {found.settings}, until its cell runs; undo() loads it as it was."
    assert found.undo() == f"'{found.name}' is loaded as it was before apply()."
    assert applied == []
    with pytest.raises(UnavailableError, match="no settings were applied, so there are none to undo"):
        found.undo()


def test_a_model_of_any_server_is_replayed_and_reloaded(lab: Lab) -> None:
    model = lab.load("summed", ADD_SUB, ANYWHERE)
    with pytest.raises(InvalidArgumentError, match="the record of 'summed' has nothing to replay"):
        model.what_if(instances=2)
    for _ in range(3):
        model(INPUT0=np.zeros((1, 4), np.float32), INPUT1=np.zeros((1, 4), np.float32))
    assert "kind" not in model.what_if(instances=2).config  # which would keep it off the GPUs of another machine
    assert "instance_group" not in model.what_if(max_queue_delay_microseconds=100).config
    found = model.what_if(max_queue_delay_microseconds=100, instances=2)
    assert found.before.requests == found.after.requests == 3
    found.apply()
    assert len(model.instances()) == 2
    assert model.config()["dynamic_batching"]["max_queue_delay_microseconds"] == 100
    model(INPUT0=np.zeros((1, 4), np.float32), INPUT1=np.zeros((1, 4), np.float32))
    assert "kind" not in model.what_if(instances=3).config
    found.undo()
    assert "dynamic_batching" not in model.config() and len(model.instances()) == 1


def test_a_model_on_two_gpus_gets_as_many_instances_as_are_requested(tmp_path: Path) -> None:
    lab = Lab(tmp_path, simulated_gpus=2)
    try:
        tritonlab.recording(lab.server)
        model = lab.load("twice", ADD_SUB, ANYWHERE)
        zeros = np.zeros((1, 4), np.float32)
        model(INPUT0=zeros, INPUT1=zeros)
        found = model.what_if(max_queue_delay_microseconds=100)
        found.apply()
        assert len(model.instances()) == 2 and "instance_group" not in found.config
        found.undo()
        model(INPUT0=zeros, INPUT1=zeros)
        model.what_if(instances=4).apply()
        assert len(model.instances()) == 4
        model(INPUT0=zeros, INPUT1=zeros)
        with pytest.raises(InvalidArgumentError, match="as many instances on each of its 2 GPUs: 2 or 4, not 3"):
            model.what_if(instances=3)
        with pytest.raises(InvalidArgumentError, match="as many instances on each of its 2 GPUs: 2, not 1"):
            model.what_if(instances=1)
    finally:
        lab.server.stop()


def test_what_would_end_an_ensemble_is_reported_and_not_applied(lab: Lab) -> None:
    tritonlab.recording(lab.server)
    model = lab.load("inside", ADD_SUB, ADD_SUB_CONFIG + "max_batch_size: 4 dynamic_batching { }")
    (
        lab.write("outside", "", ensemble_text(step("inside", "INPUT0=X INPUT1=X", "OUTPUT0=Y"), batch=4))
        / "1"
        / "model.py"
    ).unlink()
    outside = lab.server.load("outside")
    model(INPUT0=np.zeros((1, 4), np.float32), INPUT1=np.zeros((1, 4), np.float32))
    before = model.instances()
    found = model.what_if(max_batch_size=2)
    assert "Ensemble 'outside' needs a max_batch_size of 4" in repr(found)
    with pytest.raises(
        InvalidArgumentError, match="max_batch_size is 4 or more while ensemble 'outside' is loaded, not 2"
    ):
        found.apply()
    assert outside.ready() and model.instances() == before
    lab.server.unload("outside")
    found.apply()
    assert model.config()["max_batch_size"] == 2


def test_a_cell_s_model_keeps_its_text_and_gets_the_settings() -> None:
    source = executes("return [None] * len(requests)")
    workspace = tritonlab.default_workspace()
    try:
        model = tritonlab.load("tuned", source, config="max_batch_size: 4", inputs=["X:FP32[1]"], outputs=["Y:FP32[1]"])
        wanted = Settings(4, True, (), 300, 2)
        workspace.tune("tuned", wanted)
        assert (len(model.instances()), model.config()["dynamic_batching"]["max_queue_delay_microseconds"]) == (2, 300)
        assert workspace.draft("tuned").config.text == "max_batch_size: 4"
        with pytest.raises(tritonlab.TritonError):
            workspace.tune("tuned", Settings(4, True, (9,), 300, 3))  # which no config may say
        assert workspace.draft("tuned").settings == wanted and len(model.instances()) == 2
        workspace.tune("tuned", None)
        assert len(model.instances()) == 1
        undo = TunedModel(model).reload(wanted)
        assert workspace.draft("tuned").settings == wanted and len(model.instances()) == 2
        undo()
        assert workspace.draft("tuned").settings is None and len(model.instances()) == 1
        workspace.tune("tuned", wanted)
        tritonlab.load("tuned", source + "\n", config="max_batch_size: 4", inputs=["X:FP32[1]"], outputs=["Y:FP32[1]"])
        assert workspace.draft("tuned").settings is None
    finally:
        tritonlab.reset()
