"""The file of a capture: Arrow's IPC format, a row for each request with all of its responses, in order of arrival.

`pandas.read_feather` and `polars.read_ipc` read it, DuckDB a table of pyarrow. The buffers are compressed with zstd.
Each batch of rows is complete on the disk before the next one: of a file whose writer was killed, all complete batches
are read.

The bytes of a tensor are as in KServe's protocol (`raw_input_contents`): little-endian numbers in C order, BYTES as
elements with their length in four bytes. The schema's metadata has JSON at the key `tritonlab.capture`; the metadata of
a batch has the counts of the requests that are not in the file, since the batch before, at `tritonlab.left_out`.

Heads and framing are read here: pyarrow's readers (26.0.1, measured on 2026-11-29) unpack a batch before its size is
known, so that a file of 44 kB took 1.1 GB and one changed byte an allocation of 1.1 TB. They also raise the same
ArrowInvalid for the last batch of a killed writer as for damage, and read all bodies of a stream to count its rows.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import operator
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.foreign_file import open_file
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor, wire_elements
from ...core.status import Code, TritonError, UnsupportedError
from ...exchanges.exchange import Arrival, Exchange
from ...ipc.processes.out_of_memory import memory_left

if TYPE_CHECKING:
    import pyarrow

#: The version of the format. A reader refuses files of a later one.
FORMAT = 1
_FACTS, _LEFT_OUT = b"tritonlab.capture", b"tritonlab.left_out"
_MAGIC = b"ARROW1\0\0"
#: The end of a file: the bytes of the footer before it, and the magic word.
_FOOTER_END = struct.Struct("<i6s")


class Withheld(NamedTuple):
    """A tensor or parameter that a capture does not have as it was.

    how: `dropped`, `shape`, `hash:` and the digest of its bytes: the exchange lacks it then; or `inexact`: its source
        has it in a form that is not exact, and so has the exchange
    """

    how: str
    datatype: str = ""
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class CapturedRequest:
    """One request with its answer as a capture has it. The exchange's `request_start` is 0.

    at_ns: when it came, in nanoseconds since the capture began
    protocol: `http`, `grpc` or `kernel`; empty if unknown
    withheld: the parts of it that are not as they were, by place: `input.TEXT`, `output.0.SUM` of response 0,
        `parameter.user`, `response.0.user` for a parameter of response 0, `request_id`, `sequence_id`, `error`
    """

    exchange: Exchange
    at_ns: int = 0
    protocol: str = ""
    withheld: Mapping[str, Withheld] = field(default_factory=dict)


def schema(facts: Mapping[str, Any]) -> pyarrow.Schema:
    """Return the columns of a capture, with its facts as metadata: JSON values."""
    pa = arrow()
    tensor = pa.struct(
        [
            ("name", pa.string()),
            ("datatype", pa.string()),
            ("shape", pa.list_(pa.int64())),
            ("data", pa.large_binary()),
            ("withheld", pa.string()),
        ]
    )
    response = pa.struct(
        [
            ("after_ns", pa.int64()),
            ("final", pa.bool_()),
            ("version", pa.int64()),
            ("error", pa.string()),
            ("code", pa.string()),
            ("parameters", pa.string()),
            ("outputs", pa.list_(tensor)),
        ]
    )
    columns = [
        ("at_ns", pa.int64()),
        ("protocol", pa.string()),
        ("model", pa.string()),
        ("version", pa.int64()),
        ("request_id", pa.string()),
        ("sequence_id", pa.string()),
        ("sequence_id_is_text", pa.bool_()),
        ("flags", pa.int32()),
        ("priority", pa.uint64()),
        ("timeout_us", pa.uint64()),
        ("parameters", pa.string()),
        ("withheld", pa.string()),
        ("requested_outputs", pa.list_(pa.string())),
        ("inputs", pa.list_(tensor)),
        ("responses", pa.list_(response)),
        ("error", pa.string()),
        ("code", pa.string()),
        ("unanswered", pa.string()),
        ("unsent", pa.string()),
        ("odd_texts", pa.string()),
    ]
    return pa.schema(columns, metadata={_FACTS: json.dumps({"format": FORMAT, **facts}).encode()})


class FileFull(Exception):
    """The rows do not fit into the largest size of a capture."""


class CaptureFile:
    """A capture that is being written. Not thread-safe: one writer owns it. Raises OSError as files do.

    Guarantee: after `append` its rows are in the file, and read even if the process is killed. Of an `append` that
    raises, nothing is in the file.
    """

    def __init__(self, path: str | os.PathLike[str], facts: Mapping[str, Any], most_bytes: int | None = None) -> None:
        """Create the file. `most_bytes`: its largest size, without a few kilobytes at its end."""
        pa = arrow()
        self._schema = schema(facts)
        self._path, self._was_cut = path, False
        self._file = _Unbuffered(path, most_bytes)
        try:
            self._writer = self._new_writer(self._file)
            # pyarrow writes the schema with the first batch, and only once
            self._writer.write_batch(pa.RecordBatch.from_pylist([], schema=self._schema), custom_metadata=_counts({}))
        except BaseException:
            self._file.close()
            os.unlink(path)
            raise

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._file.tell()

    def append(self, requests: Sequence[CapturedRequest], left_out: Mapping[str, int] | None = None) -> int:
        """Write requests in one batch, and return the bytes of the file. `left_out`: counts by reason.

        Raises FileFull, OSError, and errors of pyarrow for values that no column takes; the file is then as before.
        """
        pa = arrow()
        rows = [_row(each) for each in requests]
        try:
            batch = pa.RecordBatch.from_pylist(rows, schema=self._schema)
        except UnicodeEncodeError:
            batch = pa.RecordBatch.from_pylist([_without_surrogates(row) for row in rows], schema=self._schema)
        begin, self._file.is_limited = self._file.tell(), bool(requests)
        try:
            self._writer.write_batch(batch, custom_metadata=_counts(left_out or {}))
        except BaseException:
            self._file.cut(begin)
            self._was_cut = True
            raise
        return self._file.tell()

    def close(self) -> None:
        """Write the file's footer, which other readers need, and close it."""
        self._file.is_limited = False
        try:
            if self._was_cut:
                self._file.write(self._footer())
            else:
                self._writer.close()
        finally:
            self._file.close()

    def _new_writer(self, file: Any) -> Any:
        pa = arrow()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        return pa.ipc.new_file(pa.PythonFile(file, "w"), self._schema, options=options)

    def _footer(self) -> bytes:
        """Return the end of the file. After the disk has refused a batch, pyarrow's writer has wrong places for the
        following ones, so all of them are written once more, and only the end is kept."""
        again = io.BytesIO()
        writer = self._new_writer(again)
        with open(self._path, "rb") as file:
            for each in _messages(file):
                if each.buffers:
                    batch = _unpack_batch(file, each, self._schema)
                    writer.write_batch(batch, custom_metadata=_counts(each.left_out))
                    again.seek(0)  # pyarrow counts the bytes itself
                    again.truncate()
        writer.close()
        return again.getvalue()


def _counts(left_out: Mapping[str, int]) -> dict[bytes, bytes]:
    return {_LEFT_OUT: json.dumps(dict(left_out)).encode()}


class _Unbuffered(io.RawIOBase):
    """A new file whose bytes are on their way to the disk when `write` returns: a buffer would write them again after
    a full disk has refused them."""

    def __init__(self, path: str | os.PathLike[str], most_bytes: int | None) -> None:
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._most = most_bytes
        self._at = 0
        self.is_limited = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        size = len(view)
        if self.is_limited and self._most is not None and self._at + size > self._most:
            raise FileFull
        while view:
            view = view[os.write(self._number, view) :]
        self._at += size
        return size

    def cut(self, size: int) -> None:
        """Remove all bytes from `size` on."""
        os.ftruncate(self._number, size)
        os.lseek(self._number, size, os.SEEK_SET)
        self._at = size

    def close(self) -> None:
        if not self.closed:
            os.close(self._number)
        super().close()


class Capture:
    """A capture in a file. Iterate over it for its requests, in order of arrival; only a few batches are in memory.

    facts: JSON values: `source`, `server`, `began` (seconds since 1970) and facts of the source

    Raises OSError, and ValueError for a file that is not a capture, now or when a damaged row is reached. A file whose
    writer was killed ends with its last complete batch.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        pa = arrow()
        with open_file(self.path) as file:
            try:
                head = next(_messages(file)).head
            except (ValueError, StopIteration) as error:
                raise ValueError(f"{self.path} is not a capture: {error or 'it has no beginning'}") from None
        try:
            found = pa.ipc.read_schema(pa.py_buffer(head))
            self.facts: dict[str, Any] = json.loads((found.metadata or {})[_FACTS])
            number = self.facts["format"]
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{self.path} is not a capture: {type(error).__name__}: {error}") from None
        if type(number) is not int or number > FORMAT:
            raise ValueError(f"{self.path} has format {number}: a later tritonlab wrote it, this one reads {FORMAT}")
        self._schema = schema({})
        if not found.equals(self._schema):
            raise ValueError(f"{self.path} is not a capture: it has other columns")

    def __iter__(self) -> Iterator[CapturedRequest]:
        with open_file(self.path) as file:
            found = [each for each in self._batches(file) if each.rows]
            begins = np.cumsum([0, *(each.rows for each in found)])
            if begins[-1] * _TIME_BYTES > memory_left() // 2:
                raise ValueError(f"{self.path} is damaged: there is no memory for the times of {begins[-1]:,} rows")
            times = []
            for each in found:
                with self._naming(each):
                    times.append(_read_times(file, each))
            opened: dict[int, Any] = {}
            for row in map(int, np.argsort(np.concatenate(times), kind="stable") if times else ()):
                number = int(np.searchsorted(begins, row, side="right")) - 1
                if number not in opened:
                    while len(opened) >= _OPEN_BATCHES:
                        del opened[next(iter(opened))]
                    opened[number] = self._read(file, found[number])
                else:
                    opened[number] = opened.pop(number)  # the one used last is the last one
                yield self._request(opened[number], row - int(begins[number]))

    def __len__(self) -> int:
        with open_file(self.path) as file:
            return sum(each.rows for each in self._batches(file))

    @property
    def left_out(self) -> dict[str, int]:
        """The counts of requests that are not in the file, by reason."""
        found: Counter[str] = Counter()
        with open_file(self.path) as file:
            for each in self._batches(file):
                found.update(each.left_out)
        return dict(found)

    def __repr__(self) -> str:
        left = "".join(f", {count:,} {reason}" for reason, count in self.left_out.items())
        return f"<Capture {self.path}: {len(self):,} requests{left}>"

    def _batches(self, file: BinaryIO) -> Iterator[_Message]:
        messages = _messages(file)
        try:
            next(messages)  # the schema
            yield from messages
        except ValueError as error:
            raise ValueError(f"{self.path} is damaged: {error}") from None

    def _read(self, file: BinaryIO, batch: _Message) -> Any:
        """Return a batch with its data. Raises ValueError if it does not fit into memory or is damaged."""
        with self._naming(batch):
            size = sum(_read_unpacked_size(file, batch, number) for number in range(len(batch.buffers)))
            if size > (most := memory_left() // 2):
                raise ValueError(
                    f"it has {size:,} bytes when it is unpacked, more than the {most:,} there is memory for"
                )
            found = _unpack_batch(file, batch, self._schema)
            found.validate(full=True)
        return found

    @contextlib.contextmanager
    def _naming(self, batch: _Message) -> Iterator[None]:
        """Add the place of a batch to the errors of its reading."""
        try:
            yield
        except (arrow().ArrowException, ValueError, OSError, IndexError) as error:
            raise ValueError(f"{self.path} is damaged: the batch at byte {batch.begin:,}: {error}") from None

    def _request(self, batch: Any, row: int) -> CapturedRequest:
        try:
            return _request(batch.slice(row, 1).to_pylist()[0])
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"{self.path} is damaged: a row has a value that no request has: {type(error).__name__}: {error}"
            ) from None


#: Batches that are unpacked at a time while a capture is read.
_OPEN_BATCHES = 4
#: The memory that puts one row into order: its time, twice, and its place.
_TIME_BYTES = 24


class _Message(NamedTuple):
    """A message of Arrow's IPC format: its place in the file, the bytes of its head and, from the head of a batch, the
    places of its buffers in the file, the rows, and the counts left out. A schema has no body."""

    begin: int
    end: int
    head: bytes
    buffers: list[tuple[int, int]]
    rows: int
    left_out: dict[str, int]


def _messages(file: BinaryIO) -> Iterator[_Message]:
    """Yield the messages of a file until its end or, if its writer was killed, until one is not complete. Their bodies
    are not read. Raises ValueError for other bytes."""
    size = os.fstat(file.fileno()).st_size
    at = len(_MAGIC)
    if file.read(at) != _MAGIC:
        raise ValueError("it is not a file of Arrow")
    while (message := _message(file, at, size)) is not None:
        yield message
        at = message.end
    file.seek(max(size - _FOOTER_END.size, 0))
    tail = file.read(_FOOTER_END.size)
    if tail.endswith(_MAGIC.rstrip(b"\0")):  # else there is no footer: the writer was killed
        (footer, _) = _FOOTER_END.unpack(tail)
        if at + 8 + footer + _FOOTER_END.size != size:
            raise ValueError(f"the message at byte {at:,} is not complete")


def _message(file: BinaryIO, at: int, size: int) -> _Message | None:
    """Read the message at a place in a file of that size. Return None at the end of the messages, and for one that is
    not complete."""
    file.seek(at)
    prefix = file.read(8)
    if len(prefix) < 8 or not any(prefix):  # zeros: the last write did not reach the disk
        return None
    marker, length = struct.unpack("<Ii", prefix)
    if marker != 0xFFFFFFFF or length < 0:
        raise ValueError(f"no message begins at byte {at:,}")
    if not length or at + 8 + length > size:
        return None
    try:
        message = _head(at, prefix + file.read(length))
    except (struct.error, IndexError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"the message at byte {at:,} cannot be read: {error}") from None
    return message if at + 8 + length <= message.end <= size else None


def _head(begin: int, head: bytes) -> _Message:
    """Return a message by its head, which is a flatbuffer of Arrow's `Message.fbs`."""
    root = _Table.root(head, 8)
    body = begin + len(head)
    end = body + root.number(3, "<q")
    pairs = {pair.text(0): pair.text(1) for pair in root.tables(4)}
    left_out = json.loads(pairs.get(_LEFT_OUT.decode(), "{}"))
    if not all(type(count) is int for count in left_out.values()):
        raise ValueError("its counts are not numbers")
    kind = root.number(1, "<B")
    if kind == _SCHEMA:
        return _Message(begin, end, head, [], 0, {})
    if kind != _RECORD_BATCH:
        raise ValueError(f"it is of kind {kind}, not a batch")
    batch = root.table(2)
    rows = batch.number(0, "<q")
    places = [(body + offset, length) for offset, length in batch.pairs(2)]
    if any(place < body or length < 0 or place + length > end for place, length in places):
        raise ValueError("its buffers are outside of it")
    if not 0 <= rows <= _MOST_ROWS:
        raise ValueError(f"it has {rows:,} rows")
    return _Message(begin, end, head, places, rows, left_out)


#: The kinds of messages of Arrow.
_SCHEMA, _RECORD_BATCH = 1, 3
#: The most rows of one batch, far more than a writer makes.
_MOST_ROWS = 1 << 32


class _Table(NamedTuple):
    """A table of a flatbuffer, at a place in its bytes. Raises struct.error for a place outside of them."""

    data: bytes
    at: int

    @staticmethod
    def root(data: bytes, begin: int) -> _Table:
        return _Table(data, begin + struct.unpack_from("<I", data, begin)[0])

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return int(struct.unpack_from(form, self.data, place)[0]) if place else 0

    def table(self, field: int) -> _Table:
        return _Table(self.data, self._target(self._place(field)))

    def tables(self, field: int) -> list[_Table]:
        begin, count = self._vector(field, 4)
        return [_Table(self.data, self._target(begin + 4 * n)) for n in range(count)]

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of structures of two 64-bit integers."""
        begin, count = self._vector(field, 16)
        return list(struct.iter_unpack("<qq", self.data[begin : begin + 16 * count]))

    def text(self, field: int) -> str:
        begin, count = self._vector(field, 1)
        return self.data[begin : begin + count].decode()

    def _place(self, field: int) -> int:
        table = self.at - int(struct.unpack_from("<i", self.data, self.at)[0])
        (size,) = struct.unpack_from("<H", self.data, table)
        (offset,) = struct.unpack_from("<H", self.data, table + 4 + 2 * field) if 4 + 2 * field < size else (0,)
        return self.at + int(offset) if offset else 0

    def _target(self, place: int) -> int:
        return place + int(struct.unpack_from("<I", self.data, place)[0])

    def _vector(self, field: int, item: int) -> tuple[int, int]:
        place = self._place(field)
        if not place:
            return 0, 0
        begin = self._target(place)
        (count,) = struct.unpack_from("<I", self.data, begin)
        if begin + 4 + count * item > len(self.data):
            raise ValueError("a list of it is longer than the message")
        return begin + 4, count


def _unpack_batch(file: BinaryIO, batch: _Message, columns: Any) -> Any:
    pa = arrow()
    file.seek(batch.begin)
    return pa.ipc.read_record_batch(pa.py_buffer(file.read(batch.end - batch.begin)), columns)


def _read_unpacked_size(file: BinaryIO, batch: _Message, number: int) -> int:
    """Return the bytes of a buffer when it is unpacked."""
    place, length = batch.buffers[number]
    if length < 8:
        return length
    file.seek(place)
    (size,) = struct.unpack("<q", file.read(8))
    return length - 8 if size == -1 else max(int(size), 0)


def _read_times(file: BinaryIO, batch: _Message) -> NDArray[np.int64]:
    """Return the first column of a batch, `at_ns`, without its other columns. Raises ValueError if it is larger than
    the times of all rows need."""
    place, length = batch.buffers[1]
    size = _read_unpacked_size(file, batch, 1)
    if not batch.rows * 8 <= size <= batch.rows * 8 + 64:
        raise ValueError(f"{size:,} bytes for the times of {batch.rows:,} rows")
    file.seek(place)
    data = file.read(length)
    is_packed = length - 8 != size or data[:8] != b"\xff" * 8
    times = arrow().Codec("zstd").decompress(data[8:], size) if is_packed else data[8:]
    return np.frombuffer(times, np.int64, count=batch.rows)


@functools.cache
def arrow() -> Any:
    """Import pyarrow and return it. Raises UnsupportedError without it."""
    try:
        import pyarrow as pa
        import pyarrow.ipc
    except ModuleNotFoundError:
        raise UnsupportedError("a capture needs pyarrow: pip install 'tritonlab[capture]'") from None
    return pa


def _row(captured: CapturedRequest) -> dict[str, Any]:
    exchange, request, withheld = captured.exchange, captured.exchange.request, captured.withheld
    hidden = {place: each.how for place, each in withheld.items() if not place.startswith(("input.", "output."))}
    return {
        "at_ns": captured.at_ns,
        "protocol": captured.protocol,
        "model": request.model_name,
        "version": request.model_version,
        "request_id": request.request_id,
        "sequence_id": str(request.correlation_id or ""),
        "sequence_id_is_text": isinstance(request.correlation_id, str),
        "flags": request.flags,
        "priority": request.priority,
        "timeout_us": request.timeout,
        "parameters": json.dumps(request.parameters or {}),
        "withheld": json.dumps(hidden),
        "requested_outputs": list(request.requested_outputs),
        "inputs": _tensor_rows(request.inputs, "input.", withheld),
        "responses": [_response_row(n, arrival, withheld) for n, arrival in enumerate(exchange.arrivals)],
        **_error_fields(exchange.error),
        "unanswered": exchange.unanswered,
        "unsent": exchange.unsent,
        "odd_texts": "[]",
    }


def _response_row(number: int, arrival: Arrival, withheld: Mapping[str, Withheld]) -> dict[str, Any]:
    response = arrival.response
    return {
        "after_ns": arrival.after_ns,
        "final": response.final,
        "version": response.model_version,
        **_error_fields(response.error),
        "parameters": json.dumps(response.parameters),
        "outputs": _tensor_rows(response.outputs, f"output.{number}.", withheld),
    }


def _error_fields(error: TritonError | None) -> dict[str, str]:
    return {"error": error.message, "code": error.code.name} if error is not None else {"error": "", "code": ""}


def _tensor_rows(tensors: Mapping[str, Tensor], prefix: str, withheld: Mapping[str, Withheld]) -> list[dict[str, Any]]:
    rows = []
    for name, tensor in tensors.items():
        how = withheld[prefix + name].how if prefix + name in withheld else ""
        rows.append(_tensor_row(name, tensor.datatype.name, tensor.shape, tensor.to_host().data.tobytes(), how))
    for place, each in withheld.items():
        name = place.removeprefix(prefix)
        if place.startswith(prefix) and name not in tensors:
            rows.append(_tensor_row(name, each.datatype, each.shape, None, each.how))
    return rows


def _tensor_row(name: str, datatype: str, shape: Sequence[int], data: bytes | None, how: str) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape), "data": data, "withheld": how}


def _without_surrogates(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose texts are Unicode: half a surrogate pair, which JSON can carry, becomes a question mark, and
    `odd_texts` has the text as it was, with its place."""
    odd: list[list[Any]] = []

    def replace_odd(value: Any, place: list[Any]) -> Any:
        if isinstance(value, dict):
            return {key: replace_odd(each, [*place, key]) for key, each in value.items()}
        if isinstance(value, list):
            return [replace_odd(each, [*place, number]) for number, each in enumerate(value)]
        if not isinstance(value, str):
            return value
        plain = value.encode(errors="replace").decode()
        if plain != value:
            odd.append([*place, value])
        return plain

    return {**replace_odd(row, []), "odd_texts": json.dumps(odd)}


def _request(row: dict[str, Any]) -> CapturedRequest:
    for *place, last, text in json.loads(row["odd_texts"]):
        functools.reduce(operator.getitem, place, row)[last] = text
    withheld: dict[str, Withheld] = {}
    for place, how in json.loads(row["withheld"]).items():
        withheld[place] = Withheld(how)
    sequence = row["sequence_id"] if row["sequence_id_is_text"] else int(row["sequence_id"] or 0)
    request = InferenceRequest(
        row["model"],
        _tensors(row["inputs"], "input.", withheld),
        model_version=row["version"],
        request_id=row["request_id"],
        correlation_id=sequence,
        flags=row["flags"],
        priority=row["priority"],
        timeout=row["timeout_us"],
        parameters=json.loads(row["parameters"]) or None,
        requested_outputs=row["requested_outputs"],
    )
    arrivals = []
    for number, each in enumerate(row["responses"]):
        outputs = _tensors(each["outputs"], f"output.{number}.", withheld)
        response = InferenceResponse(
            row["model"],
            model_version=each["version"],
            request_id=row["request_id"],
            outputs=outputs,
            parameters=json.loads(each["parameters"]),
            error=_error(each),
            final=each["final"],
            empty=each["final"] and not each["outputs"] and not each["error"],
        )
        arrivals.append(Arrival(response, each["after_ns"]))
    exchange = Exchange(
        request, tuple(arrivals), _error(row), unanswered=row["unanswered"], unsent=row["unsent"], source="capture"
    )
    return CapturedRequest(exchange, row["at_ns"], row["protocol"], withheld)


def _error(fields: Mapping[str, Any]) -> TritonError | None:
    return TritonError.from_code(Code[fields["code"]], fields["error"]) if fields["code"] else None


def _tensors(rows: Sequence[Mapping[str, Any]], prefix: str, withheld: dict[str, Withheld]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for each in rows:
        name, shape = each["name"], tuple(each["shape"])
        if each["withheld"]:
            withheld[prefix + name] = Withheld(each["withheld"], each["datatype"], shape)
        if each["data"] is not None:
            datatype = DataType[each["datatype"]]
            found[name] = Tensor(datatype, shape, wire_elements(each["data"], datatype))
    return found
