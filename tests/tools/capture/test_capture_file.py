from __future__ import annotations

import errno
import os
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest

from tests.tools.capture.captures import captured, facts_of, texts, written
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import Code, TritonError
from tritonlab.exchanges.exchange import Arrival, Exchange
from tritonlab.tools.capture import capture_file
from tritonlab.tools.capture.capture_file import FORMAT, Capture, CapturedRequest, CaptureFile, Withheld, schema

ODD = "half a pair \ud83d and \udc80"
NUMBERS = [each for each in DataType if each.byte_size and each is not DataType.BF16]


def tensors() -> dict[str, Tensor]:
    """Return a tensor of each datatype, and the odd ones."""
    found = {
        each.name: Tensor.from_numpy(np.frombuffer(bytes(range(16)), np.uint8).view(each.numpy).copy())
        for each in NUMBERS
        if each is not DataType.BOOL
    }
    return {
        **found,
        "BOOL": Tensor.from_numpy(np.array([[True, False]])),
        "BF16": Tensor(DataType.BF16, (2, 1), np.array([0x3F80, 0x7FC0], np.uint16)),
        "NAN": Tensor.from_numpy(np.array([np.nan, np.inf, -0.0], np.float32)),
        "NOT_UTF8": texts(b"\xff\xfe", b"", b"\0", "ü"),
        "EMPTY": Tensor.from_numpy(np.zeros((0, 3), np.float32)),
        "NO_TEXTS": texts(),
        "SCALAR": Tensor.from_numpy(np.array(7, np.int64)),
        "CUT_OFF": Tensor(DataType.BYTES, (2,), np.frombuffer(b"\x05\0\0\0ab", np.uint8)),
        ODD: Tensor.from_numpy(np.array([1], np.uint8)),
    }


def requests() -> dict[str, CapturedRequest]:
    """Return requests of each kind that a capture has, by their kind."""
    error = TritonError.from_code(Code.UNAVAILABLE, f"no {ODD}")
    stream = (
        Arrival(InferenceResponse("m", 2, "s", outputs={"A": texts("a")}, final=False), 3),
        Arrival(InferenceResponse("m", 2, "s", parameters={"p": 0.5}, error=error, final=False), 7),
        Arrival(InferenceResponse("m", 2, "s", empty=True), 9),
    )
    parameters = {"b": True, "i": -(2**63), "u": 2**63, "f": 1.0, "t": ODD, "e": "", "n": 1e300}
    limits = {"priority": 2**64 - 1, "timeout": 2**64 - 1, "flags": SEQUENCE_START | SEQUENCE_END}
    inexact = {"input.T": Withheld("inexact", "BYTES", (1,)), "output.0.B": Withheld("shape", "FP32", (2, 3))}
    hidden = {"parameter.user": Withheld("dropped"), "response.0.x": Withheld("hash:00"), "error": Withheld("dropped")}
    return {
        "tensors": captured(tensors(), tensors()),
        "parameters": captured(parameters=parameters, request_id=ODD),
        "limits": captured(**limits, correlation_id=2**64 - 1, model_version=3),
        "a text for a sequence": captured(correlation_id=ODD),
        "an empty text for a sequence": captured(correlation_id=""),
        "requested outputs": captured(requested_outputs=["B", "A"]),
        "an error": captured(error=error),
        "a stream": CapturedRequest(Exchange(InferenceRequest("m", {}, request_id="s"), stream), 5, "grpc"),
        "no answer": CapturedRequest(Exchange(InferenceRequest("m", {}), unanswered="lost", unsent="cut")),
        "withheld": CapturedRequest(
            Exchange(InferenceRequest("m", {"T": texts("x")}), (Arrival(InferenceResponse("m")),)),
            withheld={**hidden, **inexact},
        ),
    }


def test_a_request_is_read_as_it_was(tmp_path: Path) -> None:
    sent = list(requests().values())
    sent = [CapturedRequest(each.exchange, n, each.protocol, each.withheld) for n, each in enumerate(sent)]
    found = written(tmp_path / "a", *sent)
    for name, one, other in zip(requests(), sent, found, strict=True):
        assert facts_of(one) == facts_of(other), name


def test_other_programs_read_the_file(tmp_path: Path) -> None:
    written(tmp_path / "a", *requests().values())
    table = pyarrow.feather.read_table(tmp_path / "a")
    assert table.schema.equals(schema({}))
    rows = table.to_pylist()
    inputs = {each["name"]: each for each in rows[0]["inputs"]}
    assert np.frombuffer(inputs["FP32"]["data"], "<f4").shape == (4,)
    assert inputs["SCALAR"]["shape"] == [] and inputs["BF16"]["datatype"] == "BF16"
    assert rows[2]["priority"] == 2**64 - 1 and rows[2]["sequence_id"] == str(2**64 - 1)
    assert rows[6]["error"] == "no half a pair ? and ?" and rows[6]["code"] == "UNAVAILABLE"
    assert [each["after_ns"] for each in rows[7]["responses"]] == [3, 7, 9]


def test_requests_come_in_order_of_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are in order of the answers; a long stream comes last. Few batches are unpacked at a time."""
    monkeypatch.setattr(capture_file, "_OPEN_BATCHES", 2)
    file = CaptureFile(tmp_path / "a", {})
    times = [[4, 2], [], [9, 6, 8], [1], [7, 0, 2]]
    for batch in times:
        file.append([captured(at_ns=at_ns, request_id=f"{at_ns}") for at_ns in batch], {"lost": len(batch)})
    file.close()
    capture = Capture(tmp_path / "a")
    found = [(each.at_ns, each.exchange.request.request_id) for each in capture]
    assert found == [(at_ns, f"{at_ns}") for at_ns in sorted(n for batch in times for n in batch)]
    assert len(capture) == 9 and capture.left_out == {"lost": 9}
    assert repr(capture) == f"<Capture {tmp_path / 'a'}: 9 requests, 9 lost>"


KILLED = """
import os, signal, sys
from tests.tools.capture.captures import captured
from tritonlab.tools.capture.capture_file import CaptureFile
file = CaptureFile(sys.argv[1], {"source": "killed"})
for number in range(5):
    file.append([captured(at_ns=number)], {"lost": 1})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_file_of_a_killed_writer_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    capture = Capture(path)
    assert [each.at_ns for each in capture] == [0, 1, 2, 3, 4] and capture.left_out == {"lost": 5}
    whole = path.read_bytes()
    batch = (len(whole) - len(whole) // 6) // 5
    for size in range(len(whole) - 2 * batch, len(whole), 211):  # a batch that is not complete, at any byte
        path.write_bytes(whole[:size])
        assert [each.at_ns for each in capture] == list(range(len(capture))) and 2 <= len(capture) <= 4
    path.write_bytes(whole + bytes(5000))  # space without bytes, after the machine has lost power
    assert len(list(capture)) == 5


def test_a_batch_that_the_disk_refuses_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: Any) -> None:
    file = CaptureFile(tmp_path / "a", {})
    write, calls = os.write, 0

    def refuse(number: int, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls % 5 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(number, data[: len(data) // 2 + 1])  # a disk may take less than it is given

    monkeypatch.setattr(os, "write", refuse)
    for at_ns in range(3):
        with pytest.raises(OSError, match="No space left"):
            file.append([captured(at_ns=1)])
        if not at_ns:
            with monkeypatch.context() as room:
                room.setattr(os, "write", write)
                file.append([captured(at_ns=0)])
    with pytest.raises(OSError, match="No space left"):
        CaptureFile(tmp_path / "b", {})
    assert not (tmp_path / "b").exists()
    monkeypatch.undo()
    file.append([captured(at_ns=2)])
    file.close()
    assert [each.at_ns for each in Capture(tmp_path / "a")] == [0, 2]
    assert pyarrow.feather.read_table(tmp_path / "a")["at_ns"].to_pylist() == [0, 2]


def foreign() -> dict[str, bytes]:
    """Return files that are not captures."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, pa.schema([("a", pa.int64())])) as writer:
        writer.write_batch(pa.record_batch([pa.array([1])], ["a"]))
    other = sink.getvalue().to_pybytes()
    head = other[:8]
    return {
        "empty": b"",
        "text": b"at_ns,model\n1,m\n",
        "parquet": b"PAR1" + bytes(100),
        "the first bytes alone": head,
        "other columns": other,
        "a message without end": head + struct.pack("<Ii", 0xFFFFFFFF, 2**31 - 1) + bytes(50),
        "a negative length": head + struct.pack("<Ii", 0xFFFFFFFF, -1) + bytes(50),
        "no message": head + b"ABCDEFGHIJKLMNOP",
        "random bytes": head + struct.pack("<Ii", 0xFFFFFFFF, 64) + bytes(range(64)),
    }


@pytest.mark.parametrize("name", foreign())
def test_a_foreign_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").write_bytes(foreign()[name])
    with pytest.raises(ValueError, match=r"a is not a capture: "):
        Capture(tmp_path / "a")


def test_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        with pytest.raises(OSError, match=r"pipe|No such file|directory"):
            Capture(tmp_path / name)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    CaptureFile(tmp_path / "a", {"format": FORMAT + 1}).close()
    with pytest.raises(ValueError, match=f"has format {FORMAT + 1}: a later tritonlab wrote it"):
        Capture(tmp_path / "a")


def test_a_damaged_file_is_an_error_of_its_own(tmp_path: Path) -> None:
    """Each byte of a small capture is changed in turn: it is read, or refused with the file's name. Nothing else is
    raised, and no memory beyond the file's own size is used."""
    path = tmp_path / "a"
    written(path, *list(requests().values())[:3])
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 29):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            list(Capture(path))
        except ValueError as error:
            refused += 1
            assert str(error).startswith(str(path)), error
    assert refused > len(whole) // 29 // 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 8 << 20  # kB


@pytest.mark.parametrize("head", [struct.pack("<Ii", 0xFFFFFFFF, 0), struct.pack("<Ii", 0xFFFFFFFF, 1 << 30), bytes(8)])
def test_a_complete_file_does_not_end_early(tmp_path: Path, head: bytes) -> None:
    """Only the file of a killed writer, which has no footer, may end with a batch that is not complete."""
    path = tmp_path / "a"
    file = CaptureFile(path, {})
    places = [file.append([captured(at_ns=at_ns)]) for at_ns in range(3)]
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: places[1]] + head + whole[places[1] + 8 :])
    with pytest.raises(ValueError, match=f"a is damaged: the message at byte {places[1]:,} is not complete"):
        len(Capture(path))
    path.write_bytes(whole[: places[1]] + head + whole[places[1] + 8 : -1])
    assert len(Capture(path)) == 2


def test_a_small_file_with_much_in_it_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros are packed a thousand times: what a batch has is compared with the memory before it is unpacked."""
    path = tmp_path / "a"
    written(path, captured({"X": Tensor.from_numpy(np.zeros(1 << 20, np.uint8))}))
    assert path.stat().st_size < 20_000 and len(list(Capture(path))) == 1
    monkeypatch.setattr(capture_file, "memory_left", lambda: 1 << 20)
    with pytest.raises(ValueError, match=r"a is damaged: the batch at byte [\d,]+: it has 1,0\d\d,\d+ bytes when"):
        list(Capture(path))


def test_a_small_file_with_many_rows_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of all rows are put into order before a batch is unpacked."""
    path, count = tmp_path / "a", 1 << 16
    file = CaptureFile(path, {})
    columns = [pa.nulls(count, each.type) for each in schema({})]
    columns[0] = pa.array(np.zeros(count, np.int64))
    file._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema({})))
    file.close()
    assert path.stat().st_size < 20_000 and len(Capture(path)) == count
    monkeypatch.setattr(capture_file, "memory_left", lambda: 1 << 20)
    monkeypatch.delattr(capture_file, "_read_times")
    with pytest.raises(ValueError, match=r"a is damaged: there is no memory for the times of 65,536 rows"):
        list(Capture(path))


def test_a_negative_number_of_rows_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a"
    written(path, *[captured()] * 12_345)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(struct.pack("<q", 12_345), struct.pack("<q", -1), 1))
    with pytest.raises(ValueError, match=r"a is damaged: the message at byte [\d,]+ cannot be read: it has -1 rows"):
        len(Capture(path))


@pytest.mark.parametrize(
    "changes",
    [
        {"code": "NO_CODE"},
        {"parameters": "["},
        {"odd_texts": "[[1]]"},
        {"sequence_id": "x"},
        {"inputs": None},
        {"withheld": "1"},
        {"inputs": [{"name": "A", "datatype": "FP33", "shape": [], "data": b""}]},
    ],
)
def test_a_row_with_values_that_no_request_has(tmp_path: Path, changes: dict[str, Any]) -> None:
    file = CaptureFile(tmp_path / "a", {})
    row = {**capture_file._row(captured()), **changes}
    file._writer.write_batch(pa.RecordBatch.from_pylist([row], schema=schema({})))
    file.close()
    with pytest.raises(ValueError, match="a row has a value that no request has"):
        list(Capture(tmp_path / "a"))
