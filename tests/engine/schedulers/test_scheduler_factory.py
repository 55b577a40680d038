from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.engine.schedulers.batching import services
from tests.serving import SOON, eventually
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.config.model_config_rules import autofill
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.status import InternalError
from tritonlab.engine.schedulers.scheduler import Scheduler
from tritonlab.engine.schedulers.scheduler_factory import make_scheduler
from tritonlab.testing import FakeInstance, FakeTimer, MockClock


def made(text: str, directory: Path = Path("/none")) -> Scheduler:
    clock = MockClock()
    config = autofill(parse_pbtxt(text, "config.pbtxt"), model_name="m", files=["model.py"])
    return make_scheduler("m", 1, config, directory, services(clock, FakeTimer(clock)))


@pytest.mark.parametrize(
    ("text", "scheduler"),
    [
        ("", "<DynamicBatchScheduler m/1 [0 queued | 0 busy]>"),
        (
            "max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 7 }",
            "<DynamicBatchScheduler m/1 [0 queued | 0 busy | delay 7us]>",
        ),
        (
            "max_batch_size: 4 sequence_batching { }",
            "<SequenceBatchScheduler m/1 [direct | 0 of 0 slots | 0 backlogged | 0 queued | 0 busy]>",
        ),
        (
            "sequence_batching { oldest { max_candidate_sequences: 4 } }",
            "<SequenceBatchScheduler m/1 [oldest | 0 of 0 slots | 0 backlogged | 0 queued | 0 busy]>",
        ),
    ],
)
def test_the_configuration_chooses(text: str, scheduler: str) -> None:
    assert repr(made(text)) == scheduler


def test_initial_states_are_read_from_the_model_directory(tmp_path: Path) -> None:
    text = (
        'sequence_batching { state { input_name: "S" output_name: "T" data_type: TYPE_INT32 dims: [ 1 ] '
        'initial_state { name: "i" data_type: TYPE_INT32 dims: [ 1 ] data_file: "seed" } } }'
    )
    with pytest.raises(InternalError, match="failed to open text file for read"):
        made(text, tmp_path)
    (tmp_path / "initial_state").mkdir()
    (tmp_path / "initial_state" / "seed").write_bytes(b"\1\0\0\0")
    made(text, tmp_path)


@pytest.mark.parametrize(("value", "held"), [("3", 3), ("0", 1), ("", 1), ("soon", 1)])
@pytest.mark.parametrize("batching", ["dynamic_batching { }", ""])
@pytest.mark.rule("5.5.11")
def test_tritons_aid_for_tests(monkeypatch: pytest.MonkeyPatch, value: str, held: int, batching: str) -> None:
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", value)
    scheduler, instance = made(f"max_batch_size: 4 {batching}"), FakeInstance()
    scheduler.instance_ready(instance)
    needed = held if batching else 1
    for number in range(1, needed + 1):
        assert instance.sizes == []
        scheduler.enqueue(InferenceRequest("m", {}, request_id=str(number)))
    assert instance.sizes == [needed]
    instance.finish(scheduler)
    scheduler.enqueue(InferenceRequest("m", {}))  # only the first batch waits
    assert instance.sizes == [1]


@pytest.mark.rule("5.5.11")
def test_what_is_held_goes_when_no_more_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", "9")
    scheduler, instance = made("max_batch_size: 4 dynamic_batching { }"), FakeInstance()
    scheduler.instance_ready(instance)
    scheduler.enqueue(InferenceRequest("m", {}))
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    eventually(lambda: instance.sizes == [1])
    instance.finish(scheduler)
    stopping.join(SOON)
    assert not stopping.is_alive()
