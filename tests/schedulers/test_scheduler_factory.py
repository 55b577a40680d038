from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.core.infer_stats import InferStats
from tritonlab.core.instrument import Instruments
from tritonlab.core.model_config import parse_pbtxt
from tritonlab.core.model_config_rules import autofill
from tritonlab.core.status import InternalError
from tritonlab.schedulers.scheduler import Scheduler
from tritonlab.schedulers.scheduler_factory import SchedulerServices, make_scheduler
from tritonlab.testing import FakeTimer, MockClock


def made(text: str, directory: Path = Path("/none")) -> Scheduler:
    clock = MockClock()
    services = SchedulerServices(clock, Instruments(), FakeTimer(clock), InferStats(), lambda text: None)
    config = autofill(parse_pbtxt(text, "config.pbtxt"), model_name="m", files=["model.py"])
    return make_scheduler("m", 1, config, directory, services)


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_the_configuration_chooses(text: str, shown: str) -> None:
    assert repr(made(text)) == shown


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
