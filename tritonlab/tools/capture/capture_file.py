"""The file of a capture: Arrow's IPC format, a row for each request with all of its responses, in order of arrival.

`pandas.read_feather`, `polars.read_ipc` and DuckDB read it. The buffers are compressed with zstd. Each batch of rows
is complete on the disk before the next one: of a file whose writer was killed, all complete batches are read.

Bytes of a tensor are those of the protocol (`raw_input_contents` of KServe): little-endian numbers in C order, BYTES as
elements with their length in four bytes. The schema's metadata has JSON at the key `tritonlab.capture`; the metadata of
a batch has the counts of the requests that are not in the file, since the batch before, at `tritonlab.left_out`.
"""

from __future__ import annotations

import functools
import io
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ...core.foreign_file import open_file
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor, wire_elements
from ...core.status import Code, TritonError, UnsupportedError
from ...exchanges.exchange import Arrival, Exchange

if TYPE_CHECKING:
    import pyarrow

#: The version of the format. A reader refuses files of a later one.
FORMAT = 1
_FACTS, _LEFT_OUT = b"tritonlab.capture", b"tritonlab.left_out"
_MAGIC = b"ARROW1\0\0"


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
    withheld: what of it is not as it was, by place: `input.TEXT`, `output.0.SUM` of response 0, `parameter.user`
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
        ("withheld_parameters", pa.string()),
        ("requested_outputs", pa.list_(pa.string())),
        ("inputs", pa.list_(tensor)),
        ("responses", pa.list_(response)),
        ("error", pa.string()),
        ("code", pa.string()),
        ("unanswered", pa.string()),
        ("unsent", pa.string()),
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
        self._file = _Unbuffered(path, most_bytes)
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self._schema, options=options)

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self._file.tell()

    def append(self, requests: Sequence[CapturedRequest], left_out: Mapping[str, int] | None = None) -> int:
        """Write requests in one batch, and return the bytes of the file. `left_out`: counts by reason.

        Raises FileFull, OSError, and errors of pyarrow for values that no column takes; the file is then as before.
        """
        pa = arrow()
        batch = pa.RecordBatch.from_pylist([_row(each) for each in requests], schema=self._schema)
        begin, self._file.is_limited = self._file.tell(), bool(requests)
        try:
            self._writer.write_batch(batch, custom_metadata={_LEFT_OUT: json.dumps(dict(left_out or {})).encode()})
        except BaseException:
            self._file.cut(begin)
            raise
        return self._file.tell()

    def close(self) -> None:
        """Write the file's footer, which other readers need, and close it."""
        self._file.is_limited = False
        try:
            self._writer.close()
        finally:
            self._file.close()


class _Unbuffered(io.RawIOBase):
    """A new file whose bytes are on their way to the disk when `write` returns: a buffer would write them again after
    a full disk has refused them."""

    def __init__(self, path: str | os.PathLike[str], most_bytes: int | None) -> None:
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._at, self._most = 0, most_bytes
        self.is_limited = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        if self.is_limited and self._most is not None and self._at + len(view) > self._most:
            raise FileFull
        done = 0
        while done < len(view):
            done += os.write(self._number, view[done:])
        self._at += done
        return done

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
    """A capture in a file. Iterate over it for its requests, in order of arrival; nothing is kept in memory.

    facts: JSON values: `source`, `server`, `began` (seconds since 1970) and whatever its source notes
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        pa = arrow()
        try:
            with open_file(self.path) as file:
                head = _reader(pa, file)[1].metadata or {}
                self.facts: dict[str, Any] = json.loads(head[_FACTS])
        except (pa.ArrowInvalid, KeyError, ValueError) as error:
            raise ValueError(f"{self.path} is not a capture: {type(error).__name__}: {error}") from None
        if self.facts.get("format", 0) > FORMAT:
            raise ValueError(f"{self.path} has format {self.facts['format']}: a later tritonlab wrote it")

    def __iter__(self) -> Iterator[CapturedRequest]:
        for batch, _ in self._batches():
            for row in batch.to_pylist():
                yield _request(row)

    def __len__(self) -> int:
        return sum(batch.num_rows for batch, _ in self._batches())

    @property
    def left_out(self) -> dict[str, int]:
        """The counts of requests that are not in the file, by reason."""
        found: Counter[str] = Counter()
        for _, counts in self._batches():
            found.update(counts)
        return dict(found)

    def _batches(self) -> Iterator[tuple[Any, dict[str, int]]]:
        pa = arrow()
        with open_file(self.path) as file:
            batches = _reader(pa, file)[0]
            while True:
                try:
                    batch, metadata = batches()
                except (StopIteration, EOFError, pa.ArrowInvalid, OSError):  # the last batch is not complete
                    return
                yield batch, json.loads((metadata or {}).get(_LEFT_OUT, b"{}"))

    def __repr__(self) -> str:
        left = "".join(f", {count:,} {reason}" for reason, count in self.left_out.items())
        return f"<Capture {self.path}: {len(self):,} requests{left}>"


def _reader(pa: Any, file: BinaryIO) -> tuple[Any, Any]:
    """Return a function that returns the next batch with its metadata, and the schema. The file's footer is not used:
    without it, a stream follows the first eight bytes."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is not a file of Arrow")
    reader = pa.ipc.open_stream(file)
    return reader.read_next_batch_with_custom_metadata, reader.schema


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
    hidden = {place.removeprefix("parameter."): each.how for place, each in withheld.items() if "parameter." in place}
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
        "withheld_parameters": json.dumps(hidden),
        "requested_outputs": list(request.requested_outputs),
        "inputs": _tensor_rows(request.inputs, "input.", withheld),
        "responses": [_response_row(n, arrival, withheld) for n, arrival in enumerate(exchange.arrivals)],
        **_error_fields(exchange.error),
        "unanswered": exchange.unanswered,
        "unsent": exchange.unsent,
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


def _request(row: Mapping[str, Any]) -> CapturedRequest:
    withheld: dict[str, Withheld] = {}
    for name, how in json.loads(row["withheld_parameters"]).items():
        withheld[f"parameter.{name}"] = Withheld(how)
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
