"""The file of an exchange: JSON that reads well in a diff, with a `.npz` next to it for large tensors."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.foreign_file import read_arrays, read_json
from ..core.inference.data_type import DataType
from ..core.inference.infer_request import SETTINGS, InferenceRequest
from ..core.inference.tensor import Tensor
from ..core.quoting import npz_name
from ..core.status import TritonError
from ..core.whole_file import write_file
from ..ipc.processes.out_of_memory import memory_left
from .exchange import Exchange, arrivals_of, non_default_settings

#: The most elements of a tensor in the JSON; larger tensors go into the `.npz`.
_MOST_INLINE = 64


def write_exchange(exchange: Exchange, directory: Path) -> Path:
    """Write the JSON file of an exchange into the model's folder and return its path; an equal `.npz` is kept."""
    folder = directory / exchange.model
    folder.mkdir(parents=True, exist_ok=True)
    large: dict[str, NDArray[Any]] = {}
    request = exchange.request
    facts = {name: getattr(exchange, name) for name in ("source", "unanswered", "unsent")}
    document: dict[str, Any] = {
        "model": exchange.model,
        "request": {**non_default_settings(request), "inputs": _tensors(request.inputs, "input", large)},
        "answers": [_tensors(each.outputs, f"output.{n}", large) for n, each in enumerate(exchange.answers())],
        **{name: value for name, value in {"error": exchange.error_text, **facts}.items() if value},
    }
    path, beside = folder / f"{exchange.name}.json", folder / f"{exchange.name}.npz"
    if not large:
        beside.unlink(missing_ok=True)
    elif not (beside.exists() and _holds(beside, large)):
        file = io.BytesIO()
        np.savez_compressed(file, **dict[str, Any](large))
        write_file(beside, file.getvalue())
    write_file(path, _text_of(document) + "\n")
    return path


def read_exchange(path: Path) -> Exchange:
    """Read the exchange in a JSON file. Raises ValueError for a file without one."""
    beside = path.with_suffix(".npz")
    try:
        document = read_json(path)
        large = read_arrays(beside, memory_left() // 2) if beside.exists() else {}
        stated = document["request"]
        settings = {field: stated[field] for field in SETTINGS if field in stated}
        answers = [_read_tensors(each, f"output.{n}", large) for n, each in enumerate(document["answers"])]
        return Exchange(
            InferenceRequest(document["model"], _read_tensors(stated["inputs"], "input", large), **settings),
            arrivals_of(answers),
            TritonError(document["error"]) if document.get("error") else None,
            name=path.stem,
            source=document.get("source", ""),
            unanswered=document.get("unanswered", ""),
            unsent=document.get("unsent", ""),
        )
    except Exception as error:  # any error for a value of a wrong kind
        raise ValueError(f"{path} is not a golden case: {type(error).__name__}: {error}") from None


def _text_of(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, indent=1, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a client's text was not UTF-8
        return json.dumps(document, indent=1)
    return text


def _tensors(tensors: Mapping[str, Tensor], prefix: str, large: dict[str, NDArray[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        entry: dict[str, Any] = {"datatype": tensor.datatype.name, "shape": list(tensor.shape)}
        if int(np.prod(tensor.shape)) > _MOST_INLINE or tensor.byte_size > 64 * _MOST_INLINE:
            large[f"{prefix}.{npz_name(name)}"] = tensor.data
        elif tensor.datatype is DataType.BYTES:
            entry["values"] = [_text(element) for element in tensor.numpy().flat]
        else:
            # BF16 as its bits; str of a number of numpy is the shortest text for the same number
            flat = tensor.data.reshape(-1)
            entry["values"] = [float(str(v)) if flat.dtype.kind == "f" else v.item() for v in flat]
        found[name] = entry
    return found


def _read_tensors(entries: Mapping[str, Any], prefix: str, large: Mapping[str, Any]) -> dict[str, Tensor]:
    found = {}
    for name, entry in entries.items():
        # the second name is as earlier versions wrote it
        names = [each for each in (f"{prefix}.{npz_name(name)}", f"{prefix}.{name}") if each in large]
        if not names and "values" not in entry:
            raise ValueError(f"the .npz file of that name has no values of '{name}'")
        found[name] = _read_tensor(entry, None if "values" in entry else large[names[0]])
    return found


def _read_tensor(entry: Mapping[str, Any], data: Any) -> Tensor:
    datatype, shape = DataType[entry["datatype"]], tuple(entry["shape"])
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {list(shape)} has a negative dimension")
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
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)


def _holds(path: Path, arrays: Mapping[str, NDArray[Any]]) -> bool:
    try:
        stored = read_arrays(path, memory_left() // 2)
    except (OSError, ValueError):
        return False
    return stored.keys() == arrays.keys() and all(
        stored[name].dtype == array.dtype and stored[name].tobytes() == array.tobytes()
        for name, array in arrays.items()
    )
