"""Recorded answers of a model as files: JSON for any program, one file for each input (rule 2.17.3)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_CONFIG = "config.json"
#: The most recordings that are compared with an input without a recording.
_MOST_COMPARED = 500
NUMPY = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}


class NotCarriedError(Exception):
    """A tensor of a request or an answer that can be neither sent over a network nor recorded."""


class RawTensor(NamedTuple):
    """A tensor in its network form: its bytes in Triton's binary form (rule 1.6.1 for BYTES)."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes

    def to_json(self) -> dict[str, Any]:
        data = base64.b64encode(self.data).decode()
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape), "base64": data}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> RawTensor:
        data = base64.b64decode(entry["base64"])
        return cls(entry["name"], entry["datatype"], tuple(entry["shape"]), data)

    @property
    def described(self) -> str:
        return f"{self.name} {self.datatype} [{','.join(map(str, self.shape))}]"


class Response(NamedTuple):
    """One response of a model: its outputs, or an error with the name of its code."""

    outputs: Sequence[RawTensor] = ()
    parameters: Mapping[str, Any] = {}
    error: str = ""
    code: str = ""

    def to_json(self) -> dict[str, Any]:
        if self.code:
            return {"error": {"code": self.code, "text": self.error}}
        found: dict[str, Any] = {"outputs": [tensor.to_json() for tensor in self.outputs]}
        return {**found, "parameters": dict(self.parameters)} if self.parameters else found

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Response:
        if "error" in entry:
            return cls(error=entry["error"]["text"], code=entry["error"]["code"])
        outputs = [RawTensor.from_json(each) for each in entry["outputs"]]
        return cls(outputs, dict(entry.get("parameters", {})))


def key_of(inputs: Iterable[RawTensor], after: str = "") -> str:
    """Return the key of a recording: a hash of the exact inputs and of `after`, the key before it in a sequence."""
    digest = hashlib.sha256(after.encode())
    for tensor in sorted(inputs):
        digest.update(f"\0{tensor.name}\0{tensor.datatype}\0{tensor.shape}\0{len(tensor.data)}\0".encode())
        digest.update(tensor.data)
    return digest.hexdigest()[:32]


class Recordings:
    """The recordings of one model in a directory. Any thread and any process may write to it."""

    def __init__(self, directory: str, model: str) -> None:
        self.directory = Path(directory) / model

    def find(self, key: str) -> Sequence[Response] | None:
        """Return the responses recorded for a key; None if there are none. Raises ValueError for a broken file."""
        path = self.directory / f"{key}.json"
        try:
            return [Response.from_json(entry) for entry in _document(path)["responses"]]
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} is not a recording: {type(error).__name__}: {error}") from None

    def write(self, key: str, inputs: Iterable[RawTensor], responses: Iterable[Response], **more: Any) -> None:
        entries = [tensor.to_json() for tensor in sorted(inputs)]
        answers = [response.to_json() for response in responses]
        document = {"model": self.directory.name, **more, "inputs": entries, "responses": answers}
        self._write(f"{key}.json", document)

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Keep the model's config, so that the recordings are enough to load it."""
        self._write(_CONFIG, config)

    def config(self) -> dict[str, Any] | None:
        try:
            found = _document(self.directory / _CONFIG)
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a file as a whole: a concurrent reader gets the old one."""
        self.directory.mkdir(parents=True, exist_ok=True)
        file = tempfile.NamedTemporaryFile(  # noqa: SIM115 - moved once it is closed
            "w", dir=self.directory, suffix=".tmp", delete=False, encoding="utf-8"
        )
        try:
            with file:
                json.dump(document, file, indent=1)
            os.replace(file.name, self.directory / name)
        except OSError as error:  # a full disk
            os.unlink(file.name)
            raise OSError(error.errno, error.strerror, str(self.directory / name)) from None

    def nearest(self, inputs: Sequence[RawTensor]) -> str:
        """Return a sentence about the recorded input with the smallest difference from these."""
        best: tuple[float, str] | None = None
        for path in self._files():
            try:
                entries = _document(path)["inputs"]
                distance, words = _difference(inputs, [RawTensor.from_json(entry) for entry in entries])
            except (KeyError, TypeError, AttributeError, ValueError, OSError):
                continue
            if best is None or distance < best[0]:
                best = distance, f"the nearest recorded input, {path.name}, {words}"
        return best[1] if best is not None else f"there are no recordings in {self.directory}"

    def _files(self) -> Iterator[Path]:
        found = sorted(self.directory.glob("*.json")) if self.directory.is_dir() else []
        return iter([path for path in found if path.name != _CONFIG][:_MOST_COMPARED])


def _document(path: Path) -> Any:
    """Return the value of a JSON file. Raises FileNotFoundError, OSError and ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")  # reading a pipe would block
    try:
        return json.loads(path.read_text("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _difference(inputs: Sequence[RawTensor], recorded: Sequence[RawTensor]) -> tuple[float, str]:
    """Return the difference between two inputs: the distance, the share of differing elements, and a text."""
    others = {tensor.name: tensor for tensor in recorded}
    missing = [tensor.name for tensor in inputs if tensor.name not in others]
    if missing or len(others) != len(inputs):
        return 10.0 + len(missing), f"has the inputs {', '.join(sorted(others))}"
    shares, words = 0.0, []
    for tensor in inputs:
        other = others[tensor.name]
        if (tensor.datatype, tensor.shape) != (other.datatype, other.shape):
            shares += 2.0
            words.append(f"has {other.described}")
        elif tensor.data != other.data:
            share, text = _difference_of_elements(tensor, other)
            shares += share
            words.append(f"differs in {tensor.name}: {text}")
    return shares, "; ".join(words) or "is the same but for what came before in its sequence"


def _difference_of_elements(tensor: RawTensor, other: RawTensor) -> tuple[float, str]:
    if tensor.datatype not in NUMPY:
        return 1.0, "its bytes are others"
    kind: Any = NUMPY[tensor.datatype]
    one, two = np.frombuffer(tensor.data, kind), np.frombuffer(other.data, kind)
    differ = ~((one == two) | ((one != one) & (two != two)))
    count = int(differ.sum())
    if tensor.datatype == "BOOL" or not count:
        return count / one.size or 0.5, f"{count} of {one.size} elements"
    most = np.abs(one[differ].astype(np.float64) - two[differ].astype(np.float64)).max()
    return count / one.size, f"{count} of {one.size} elements, by up to {most:.6g}"
