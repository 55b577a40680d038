"""Warnings of what Triton passes on without a word: outputs (rule 3.4), once per version, of the first responses; the
devices of instances; lines that its stubs could not print."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.serving import eventually
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.observe.instrument import Instruments
from tritonlab.core.status import InternalError, NotFoundError
from tritonlab.ipc.processes.stub_log import UNPRINTABLE, LogBook, LogRecord
from tritonlab.server.observe.first_looks import (
    ENOUGH,
    LOOKS,
    OutputCheck,
    PlacementCheck,
    PrintCheck,
    gpu_memory_text,
    misplaced,
)

CONFIG = """
max_batch_size: 4
output [ { name: "A" data_type: TYPE_FP32 dims: [2] }, { name: "B" data_type: TYPE_STRING dims: [-1] } ]
"""
MIB = 1 << 20
A, B = np.zeros((1, 2), np.float32), np.array([[b"x"]], object)


class Side:
    """A server of models with these configs, without anything else."""

    def __init__(self, **configs: str) -> None:
        self.configs = configs
        self.instruments = Instruments()
        self.log = LogBook()
        self.instruments.add(OutputCheck(self.instruments, self.find, self.log))  # type: ignore[arg-type]

    def find(self, name: str, version: int) -> Any:
        if name not in self.configs:
            raise NotFoundError(name)
        return type("Version", (), {"config": parse_pbtxt(self.configs[name], name)})

    def ready(self, name: str = "m", version: int = 1) -> None:
        assert self.instruments.model_state is not None
        self.instruments.model_state(name, version, "READY", "", 0)

    def answers(self, *, rows: int = 1, requested: tuple[str, ...] = (), **outputs: Any) -> list[str]:
        """Return the warnings in the log about a response with these outputs."""
        tensors = {name: Tensor.from_numpy(array) for name, array in outputs.items()}
        return self.respond(InferenceResponse("m", 1, outputs=tensors), rows, requested)

    def respond(self, response: InferenceResponse, rows: int = 1, requested: tuple[str, ...] = ()) -> list[str]:
        request = InferenceRequest("m", {}, requested_outputs=requested)
        request.batch_size = rows
        request.serial = 7
        before = len(self.log.records())
        if self.instruments.response_sent is not None:
            self.instruments.response_sent(request, response, 0)
        texts = [record.text.removeprefix("Triton checks no outputs: ") for record in self.log.records()[before:]]
        assert list(self.instruments)  # it did not fail and was not thrown out
        return texts


@pytest.fixture
def side() -> Side:
    side = Side(m=CONFIG)
    side.ready()
    return side


def test_what_is_as_promised_is_not_mentioned(side: Side) -> None:
    assert side.answers(A=A, B=B) == []
    assert side.answers(rows=3, A=np.zeros((3, 2), np.float32), B=np.array([[b"x", b"y"]] * 3, object)) == []
    assert side.answers(requested=("B",), B=B) == []
    assert side.respond(InferenceResponse("m", 1, error=InternalError("bad"))) == []
    assert side.respond(InferenceResponse("m", 1, empty=True)) == []


@pytest.mark.rule("3.4.1", "3.4.2", "3.4.3")
@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ({"A": A.astype(np.float64), "B": B}, "'A' is FP64 where the config says FP32."),
        ({"A": np.zeros((1, 3), np.float32), "B": B}, "'A' has shape [1, 3] where the config says [batch, 2]."),
        ({"A": np.zeros(2, np.float32), "B": B}, "'A' has shape [2] where the config says [batch, 2]."),
        ({"A": np.zeros((2, 2), np.float32), "B": B}, "'A' has 2 rows for a request of 1."),
        ({"A": A}, "a response does not have 'B', which the config promises."),
        ({}, "a response has none; the config promises 'A', 'B'."),
    ],
)
def test_each_difference_is_reported_once_per_version(side: Side, outputs: dict[str, Any], text: str) -> None:
    assert side.answers(**outputs) == [text]
    assert side.answers(**outputs) == []
    side.ready()  # loaded again
    assert side.answers(**outputs) == [text]
    (first, _) = side.log.records("m")
    assert (first.stream, first.level, first.version) == ("server", "WARNING", 1)
    assert first.serials == (7,)


def test_a_reshape_is_no_difference() -> None:
    side = Side(m="output { name: 'A' data_type: TYPE_FP32 dims: [2, 2] reshape { shape: [4] } }")
    side.ready()
    assert side.answers(A=np.zeros(4, np.float32)) == []
    assert side.answers(A=np.zeros((2, 2), np.float32)) == []


def test_a_decoupled_model_may_send_its_outputs_one_by_one() -> None:
    side = Side(m=CONFIG + "model_transaction_policy { decoupled: true }")
    side.ready()
    texts = [text for _ in range(ENOUGH) for text in side.answers(A=np.zeros((5, 2), np.float32))]
    assert texts == [f"none of {ENOUGH} responses has 'B', which the config promises."]


def test_it_takes_itself_off_when_it_has_seen_enough(side: Side) -> None:
    side.ready("gone")
    for _ in range(ENOUGH):
        assert side.instruments.response_sent is not None
        side.answers(A=A, B=B)
    side.respond(InferenceResponse("gone", 1))
    assert side.instruments.response_sent is None
    assert side.answers() == []
    side.ready()
    assert len(side.answers()) == 1


def test_ensembles_were_checked_when_they_were_loaded() -> None:
    side = Side(m="platform: 'ensemble' output { name: 'A' data_type: TYPE_FP32 dims: [2] }")
    side.ready()
    assert side.answers() == []
    assert side.instruments.response_sent is None


def plan(kind: str, device: int = 0) -> Any:
    return SimpleNamespace(name="m_0", kind=kind, device_id=device)


@pytest.mark.parametrize(
    ("kind", "device", "held", "text"),
    [
        ("GPU", 1, {1: MIB}, ""),
        ("GPU", 1, {}, ""),
        ("MODEL", 0, {3: MIB}, ""),
        (
            "GPU",
            1,
            {0: 5 * MIB, 1: MIB},
            "'m_0' was placed on GPU 1 and holds 5 MiB of simulated GPU 0; "
            'choose the device by args["model_instance_device_id"].',
        ),
        (
            "CPU",
            0,
            {0: MIB, 2: 3 << 29},
            "'m_0' was placed on CPU and holds 1 MiB of simulated GPU 0, 1.5 GiB of simulated GPU 2; "
            'choose the device by args["model_instance_kind"].',
        ),
    ],
)
def test_texts_of_wrong_placements(kind: str, device: int, held: dict[int, int], text: str) -> None:
    assert misplaced(plan(kind, device), held, simulated=True) == text


def test_memory_of_a_gpu_in_words() -> None:
    assert gpu_memory_text(1536 << 10, 1, simulated=False) == "1.5 MiB of GPU 1"


class PlacedSide:
    """A server with one version of model `m`, whose process 7 was placed on GPU 1, without anything else."""

    def __init__(self, gpus: int = 2) -> None:
        self.held: dict[int, int] = {}
        self.checked: list[int] = []
        self.instruments, self.log = Instruments(), LogBook()
        visible = SimpleNamespace(all=range(gpus), simulated=True, held=self.holds)
        check = PlacementCheck(self.instruments, self.find, self.log, visible)  # type: ignore[arg-type]
        self.instruments.add(check)

    def holds(self, pid: int) -> dict[int, int]:
        self.checked.append(pid)
        return self.held

    def find(self, name: str, version: int) -> Any:
        if name != "m":
            raise NotFoundError(name)
        return SimpleNamespace(instances=[SimpleNamespace(name="m_0", plan=plan("GPU", 1), pid=7)])

    def ready(self, name: str = "m") -> None:
        assert self.instruments.model_state is not None
        self.instruments.model_state(name, 1, "READY", "", 0)

    def execute(self) -> None:
        if self.instruments.batch_executed is not None:
            self.instruments.batch_executed("m", 1, "m_0", 1, [], 1, "", None, False, 0)

    def texts(self) -> list[str]:
        return [record.text for record in self.log.records()]


def test_placement_looks_at_the_first_executions_only() -> None:
    side = PlacedSide()
    side.ready()
    for _ in range(LOOKS[-1]):
        assert side.instruments.batch_executed is not None
        side.execute()
    assert side.instruments.batch_executed is None
    eventually(lambda: side.checked == [7] * (1 + len(LOOKS)))
    assert side.texts() == []


def test_what_is_wrong_is_reported_once() -> None:
    side = PlacedSide()
    side.ready()
    side.held = {0: MIB}
    for count in LOOKS[:3]:
        side.execute()
        eventually(lambda count=count: len(side.texts()) == 1)
    (record,) = side.log.records()
    assert record.unchecked and record.pid == 7
    assert record.text.startswith(
        "Triton checks no placement: 'm_0' was placed on GPU 1 and holds 1 MiB of simulated GPU 0"
    )


def test_without_gpus_nothing_listens() -> None:
    side = PlacedSide(gpus=0)
    side.ready()
    assert side.instruments.batch_executed is None and side.checked == []


def test_a_version_that_went_is_not_looked_at() -> None:
    side = PlacedSide()
    side.ready("gone")
    assert side.texts() == [] and list(side.instruments)


def warnings(*records: LogRecord) -> list[LogRecord]:
    """Return what the log has besides `records`."""
    log = LogBook()
    check = PrintCheck(log)
    for record in records:
        check.log(record)
    return log.records()


def printed(text: str, pid: int = 5, stream: str = "stdout") -> LogRecord:
    return LogRecord(1, "m", 1, "m_0_0", stream, "INFO", text, pid=pid)


def test_the_first_line_of_a_process_that_is_not_ascii_is_warned_of() -> None:
    first, second = warnings(printed("plain"), printed("grüße"), printed("süß"), printed("grüße", pid=6))
    assert first.text.startswith(f"{UNPRINTABLE}print() of 'grüße' raises UnicodeEncodeError")
    assert (first.level, first.stream, first.pid, first.unchecked) == ("WARNING", "server", 5, True)
    assert (second.pid, second.instance) == (6, "m_0_0")


def test_what_triton_prints_is_not() -> None:
    assert not warnings(printed("plain"), printed("ü", stream="stderr"), printed("ü", stream="log"))


def test_a_long_line_is_cut() -> None:
    (warning,) = warnings(printed("ü" * 1000))
    assert "'" + "ü" * 39 + "…'" in warning.text


def test_versions_that_come_later_are_checked_if_one_is_unloaded_during_a_look(side: Side) -> None:
    check = next(iter(side.instruments))
    find = side.find

    def find_slowly(name: str, version: int) -> Any:
        found = find(name, version)
        other = threading.Thread(target=check._end, args=(("m", 1),))
        other.start()
        other.join(0.2)
        return found

    check._find = find_slowly
    side.answers(A=A, B=B)
    check._find = find
    side.configs["n"] = CONFIG
    side.ready("n")
    assert side.instruments.response_sent is not None
