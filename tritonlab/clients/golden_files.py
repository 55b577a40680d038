"""Requests and answers as files: JSON that reads well in a diff, with a `.npz` beside it for large
tensors.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.inference.data_type import DataType
from ..core.inference.infer_request import InferenceRequest, RequestSpec
from ..core.inference.tensor import Tensor

#: The most elements that the JSON holds; tensors with more go into the `.npz`.
_MOST_INLINE = 64


@dataclass(frozen=True)
class GoldenCase:
    """A request to a model and the answer it has to give: the outputs of each response, or an error."""

    model: str
    name: str
    inputs: Mapping[str, Tensor]
    fields: Mapping[str, Any]
    answers: Sequence[Mapping[str, Tensor]] = ()
    error: str = ""

    def request(self) -> InferenceRequest:
        return InferenceRequest(self.model, dict(self.inputs), **self.fields)


def write_case(case: GoldenCase, directory: Path) -> Path:
    """Write the JSON file of a case into the model's folder and return its path; a `.npz` that would hold the same is
    left as it is.
    """
    folder = directory / case.model
    folder.mkdir(parents=True, exist_ok=True)
    large: dict[str, NDArray[Any]] = {}
    document: dict[str, Any] = {
        "model": case.model,
        "request": {**case.fields, "inputs": _tensors(case.inputs, "input", large)},
        "answers": [_tensors(outputs, f"output.{n}", large) for n, outputs in enumerate(case.answers)],
        **({"error": case.error} if case.error else {}),
    }
    path, beside = folder / f"{case.name}.json", folder / f"{case.name}.npz"
    if not large:
        beside.unlink(missing_ok=True)
    elif not (beside.exists() and _holds(beside, large)):
        file = io.BytesIO()
        np.savez_compressed(file, **dict[str, Any](large))
        beside.write_bytes(file.getvalue())
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read_case(path: Path) -> GoldenCase:
    """Read the case in a JSON file. Raises ValueError for a file that holds none."""
    beside = path.with_suffix(".npz")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        large: Mapping[str, Any] = dict(np.load(beside)) if beside.exists() else {}
        request = document["request"]
        return GoldenCase(
            model=document["model"],
            name=path.stem,
            inputs=_read_tensors(request["inputs"], "input", large),
            fields={field: request[field] for field in RequestSpec.SETTINGS if field in request},
            answers=[_read_tensors(outputs, f"output.{n}", large) for n, outputs in enumerate(document["answers"])],
            error=document.get("error", ""),
        )
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"{path} is not a golden case: {type(error).__name__}: {error}") from None


def non_default_fields(request: RequestSpec) -> dict[str, Any]:
    """Return what a request says besides its inputs, without the fields that have their default values."""
    found = {field: value for field, value in request.settings().items() if value}
    return {field: list(value) if field == "requested_outputs" else value for field, value in found.items()}


def _tensors(tensors: Mapping[str, Tensor], prefix: str, large: dict[str, NDArray[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        entry: dict[str, Any] = {"datatype": tensor.datatype.name, "shape": list(tensor.shape)}
        if int(np.prod(tensor.shape)) > _MOST_INLINE or tensor.byte_size > 64 * _MOST_INLINE:
            large[f"{prefix}.{name}"] = tensor.data
        elif tensor.datatype is DataType.BYTES:
            entry["values"] = [_text(element) for element in tensor.numpy().flat]
        else:
            # BF16 as its bits; str of a number of numpy is the shortest text that is the same number
            flat = tensor.data.reshape(-1)
            entry["values"] = [float(str(v)) if flat.dtype.kind == "f" else v.item() for v in flat]
        found[name] = entry
    return found


def _read_tensors(entries: Mapping[str, Any], prefix: str, large: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: _read_tensor(entry, large.get(f"{prefix}.{name}")) for name, entry in entries.items()}


def _read_tensor(entry: Mapping[str, Any], data: Any) -> Tensor:
    datatype, shape = DataType[entry["datatype"]], tuple(entry["shape"])
    if data is not None:
        return Tensor(datatype, shape, data if datatype is DataType.BYTES else data.reshape(shape))
    if datatype is DataType.BYTES:
        elements = np.empty(len(entry["values"]), dtype=np.object_)
        elements[:] = [_bytes(value) for value in entry["values"]]
        return Tensor.from_numpy(elements.reshape(shape))
    return Tensor(datatype, shape, np.array(entry["values"], datatype.numpy).reshape(shape))


def _text(element: bytes) -> str | dict[str, str]:
    try:
        return element.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(element).decode()}


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


def _holds(path: Path, arrays: Mapping[str, NDArray[Any]]) -> bool:
    try:
        with np.load(path) as stored:
            return set(stored) == set(arrays) and all(
                stored[name].dtype == array.dtype and stored[name].tobytes() == array.tobytes()
                for name, array in arrays.items()
            )
    except (OSError, ValueError):
        return False
