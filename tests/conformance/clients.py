"""The client interface that the real server (`real_client.py`) and tritonlab (`lab_client.py`) share.

A test says what to place in the model repository and what to ask; both clients answer in the same words, so that one
comparison serves both. Error codes are `tritonlab.core.status.Code` names. Paths of the repository are shown as
`<repository>`, because the two sides cannot have the same one; nothing else in a text is touched.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tritonclient.utils import (
    deserialize_bytes_tensor,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

#: How long any one answer may take, in seconds. A server that hangs is reported as code DEADLINE.
DEADLINE = 10.0
#: The same of an answer for which a model loads others: the real server starts a process in 3 s if nothing else runs,
#: and in more than 10 s beside a run of all tests.
LOADING = 90.0

Files = Mapping[str, str | bytes]


class Raw(NamedTuple):
    """A tensor as it goes out, for requests numpy cannot express: wrong byte sizes, broken BYTES, BF16."""

    datatype: str
    shape: list[int]
    data: bytes


def as_raw(array: NDArray[Any]) -> Raw:
    datatype = np_to_triton_dtype(array.dtype)
    if datatype == "BYTES":
        packed = serialize_byte_tensor(array)
        return Raw(datatype, list(array.shape), packed.item() if packed.size else b"")
    return Raw(datatype, list(array.shape), np.ascontiguousarray(array).tobytes())


Inputs = Mapping[str, NDArray[Any] | Raw]


@dataclass
class Answer:
    """A response: `outputs` (BF16 as uint16 bits) and their `datatypes` as the server sent them; or `error` and
    `code`."""

    outputs: dict[str, NDArray[Any]] = field(default_factory=dict)
    datatypes: dict[str, str] = field(default_factory=dict)
    error: str = ""
    code: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    request_id: str = ""
    model: str = ""
    version: str = ""
    final: bool = True

    def plain(self) -> dict[str, Any]:
        """Return everything that both sides must agree on, comparable with ==."""
        return {
            "outputs": {k: (self.datatypes[k], v.shape, v.tolist()) for k, v in sorted(self.outputs.items())},
            "error": (self.code, self.error),
            "parameters": self.parameters,
            "id": self.request_id,
            "model": (self.model, self.version),
            "final": self.final,
        }


@dataclass(frozen=True)
class Failure:
    """The failure of a control call: what the client reads, and the reason, which Triton only logs (rule 2.5.3)."""

    code: str
    text: str
    reason: str = ""


@dataclass(frozen=True)
class Options:
    """The fields of a request besides its inputs. `timeout` in microseconds; `outputs` empty means all. `deadline`: for
    how many seconds the client waits for one answer, of which no server hears.
    """

    version: int = -1
    request_id: str = ""
    outputs: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    correlation_id: int | str = 0
    flags: int = 0
    priority: int = 0
    timeout: int = 0
    deadline: float = DEADLINE

    def all_parameters(self) -> dict[str, Any]:
        """Return the parameters as the protocol has them, those of sequences, priorities and timeouts among them."""
        sequence = {
            "sequence_id": self.correlation_id,
            "sequence_start": bool(self.flags & 1),
            "sequence_end": bool(self.flags & 2),
        }
        more = {name: value for name, value in (("priority", self.priority), ("timeout", self.timeout)) if value}
        return {**self.parameters, **(sequence if self.correlation_id else {}), **more}


#: A request with inputs and nothing else.
PLAIN = Options()


class Logged(NamedTuple):
    """A record of `pb_utils.Logger`: its level as Triton's letter (I, W, E; verbose is an I), and who logged it."""

    level: str
    file: str
    line: int


class Pending(NamedTuple):
    """A request on its way."""

    answer: Future[Answer]
    cancel: Callable[[], None]


class Client(ABC):
    """The calls that a conformance test makes to a server."""

    side: str

    def __init__(self, repository: Path) -> None:
        self.repository = repository

    # the model repository, which is a directory on both sides

    def place(self, name: str, files: Files) -> None:
        """Make `<repository>/<name>` hold exactly `files`."""
        directory = self.repository / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for path, content in files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)

    def placed(self, name: str, files: Files) -> Failure | None:
        """Place the model, then load it."""
        self.place(name, files)
        return self.load(name)

    def load_all(self, models: Mapping[str, Files]) -> dict[str, Failure | None]:
        """Place and load many models, several at a time: one load of the real server mostly sleeps (rule 2.2.2)."""
        for name, files in models.items():
            self.place(name, files)
        with ThreadPoolExecutor(6) as pool:
            return dict(zip(models, pool.map(self.load, models), strict=True))

    def plain(self, text: str) -> str:
        return text.replace(str(self.repository), "<repository>")

    # control

    @abstractmethod
    def load(
        self, name: str, config: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> Failure | None: ...

    @abstractmethod
    def unload(self, name: str, dependents: bool = False) -> Failure | None: ...

    @abstractmethod
    def ready(self, name: str = "", version: int = -1) -> bool:
        """Return whether a model, or the server, is ready."""

    @abstractmethod
    def index(self, ready: bool = False) -> list[dict[str, Any]]: ...

    @abstractmethod
    def config(self, name: str, version: int = -1) -> dict[str, Any] | Failure: ...

    @abstractmethod
    def metadata(self, name: str = "", version: int = -1) -> dict[str, Any] | Failure: ...

    @abstractmethod
    def statistics(self, name: str, version: int = -1) -> list[dict[str, Any]] | Failure: ...

    @abstractmethod
    def metrics(self) -> str: ...

    @abstractmethod
    def log(self) -> str:
        """Return everything that the server and its models have printed or logged so far."""

    @abstractmethod
    def logged(self, message: str) -> list[Logged]:
        """Return the Logger records with this message so far."""

    @abstractmethod
    def log_verbosely(self, on: bool) -> None:
        """Keep records of the verbose level or not; a server starts without them."""

    # inference

    @abstractmethod
    def stream(self, model: str, inputs: Inputs, options: Options = PLAIN) -> list[Answer]:
        """Return every response in order; the empty final of a decoupled model is an Answer without outputs (rule
        3.7.5)."""

    @abstractmethod
    def submit(self, model: str, inputs: Inputs, options: Options = PLAIN) -> Pending:
        """Send without waiting."""

    @abstractmethod
    def in_order(self, model: str, requests: Sequence[tuple[Inputs, Options]]) -> list[Answer]:
        """Send all at once so that they arrive in this order, and return the one answer of each, without error
        codes."""

    def infer(self, model: str, inputs: Inputs, **fields: Any) -> Answer:
        options = Options(**fields)
        return self.submit(model, inputs, options).answer.result(options.deadline + 5)


def to_array(datatype: str, shape: tuple[int, ...], data: bytes) -> NDArray[Any]:
    """Return the elements of a tensor in its wire form."""
    if datatype == "BYTES":
        array: NDArray[Any] = deserialize_bytes_tensor(data)
    else:
        array = np.frombuffer(data, dtype=np.uint16 if datatype == "BF16" else triton_to_np_dtype(datatype))
    return array.reshape(shape)
