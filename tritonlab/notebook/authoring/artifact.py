"""Values of the notebook as the bytes of a file, which a model can load without the notebook."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .errors import FileError


class Artifact(NamedTuple):
    """The bytes of a file, and the call that reads it."""

    data: bytes
    reader: str


def artifact_of(path: str, value: Any) -> Artifact:
    """Return the file of a value: bytes and text as they are, a numpy array as `.npy`, several by name as `.npz`,
    values of torch by `torch.save` (of a module its `state_dict()`), and values that JSON can represent as JSON.

    Raises FileError for anything else.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Artifact(bytes(value), "open(path, 'rb').read()")
    if isinstance(value, (np.ndarray, np.generic)) and _is_whole_in_file(value):
        return _saved(lambda file: np.save(file, value, allow_pickle=False), "numpy.load(path)")
    if isinstance(value, Mapping) and value and all(isinstance(each, np.ndarray) for each in value.values()):
        named = {str(name): each for name, each in value.items()}
        if all(map(_is_whole_in_file, named.values())):
            _check_names(path, named)
            return _saved(lambda file: np.savez(file, **named), "numpy.load(path)")
    torch = sys.modules.get("torch")
    if torch is not None and _is_of_torch(torch, value):
        state = value.state_dict() if isinstance(value, torch.nn.Module) else value
        return _saved(lambda file: torch.save(state, file), "torch.load(path, weights_only=True)")
    if isinstance(value, str) and not path.endswith(".json"):
        return Artifact(value.encode(), "open(path).read()")
    try:
        return Artifact((json.dumps(value, indent=1) + "\n").encode(), "json.load(open(path))")
    except (TypeError, ValueError) as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        fix = f"give its bytes: {path}=pickle.dumps(...), or those of the library's own file"
        raise FileError(f"a {kind} cannot be kept as {path} ({error}): {fix}", field=path, fix=fix) from None


def _saved(save: Any, reader: str) -> Artifact:
    file = io.BytesIO()
    save(file)
    return Artifact(file.getvalue(), reader)


def _check_names(path: str, named: Mapping[str, Any]) -> None:
    """Raise FileError for a name that an array in a `.npz` cannot have, or under which numpy finds another one."""
    for name in named:
        if name in ("file", "allow_pickle") or name.endswith(".npy") or "\0" in name:
            fix = "choose another name"
            text = f"numpy cannot keep an array as {name!r} in {path}, or does not find it there again: {fix}"
            raise FileError(text, field=path, fix=fix)


def _is_whole_in_file(array: Any) -> bool:
    """Return whether numpy's file keeps all of an array: it drops a mask, and the datatypes of other libraries."""
    is_foreign = array.dtype.isbuiltin == 2
    return not (array.dtype.hasobject or is_foreign or isinstance(array, np.ma.MaskedArray))


def _is_of_torch(torch: Any, value: Any) -> bool:
    """Return whether the value is a module or a tensor of torch, or holds tensors by name, as a `state_dict` does."""
    if isinstance(value, Mapping):
        return bool(value) and any(_is_of_torch(torch, each) for each in value.values())
    return isinstance(value, (torch.nn.Module, torch.Tensor))
