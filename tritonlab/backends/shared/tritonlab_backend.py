"""The shared parts of the backends here: load errors, settings, requests that run as one batch, and responses that are
sent one by one."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class BackendError(Exception):
    """A load error with one of Triton's codes."""

    def __init__(self, text: str, code: str = "Invalid argument") -> None:
        super().__init__(f"{code}: {text}")


# -- settings


def server_settings() -> dict[str, str]:
    """Return the `--backend-config` settings for this backend, including the settings for all backends."""
    found: dict[str, str] = json.loads(os.environ.get("TRITONLAB_BACKEND_CONFIG", "{}"))
    return found


def choice_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the choice to substitute for another backend."""
    found: dict[str, Any] = json.loads(config["parameters"]["TRITONLAB_BACKEND"]["string_value"])
    return found


def default_max_batch_size() -> int:
    """Return the batch size of a model that can batch but whose config has none."""
    return max(to_integer(server_settings().get("default-max-batch-size", "4")), 0)


def parameters_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a model's config by their keys."""
    return {key: value["string_value"] for key, value in config.get("parameters", {}).items()}


def to_integer(text: str) -> int:
    """Return the number at the beginning of a text. Raises BackendError."""
    found = re.match(r"\s*[+-]?\d+", text)
    if found is None:
        raise BackendError(f"failed to convert '{text}' to integral number")
    return int(found[0])


def to_boolean(text: str) -> bool:
    """Return the boolean in a text. Raises BackendError."""
    if text.lower() in ("true", "on", "1"):
        return True
    if text.lower() in ("false", "off", "0"):
        return False
    raise BackendError(f"failed to convert '{text}' to boolean")


def dims_of(described: Mapping[str, Any]) -> list[int]:
    """Return the shape of a config's tensor in the model's form, without the batch."""
    shaped = described["reshape"].get("shape", []) if "reshape" in described else described["dims"]
    return [int(dim) for dim in shaped]


def bracketed(dims: Sequence[int]) -> str:
    return f"[{','.join(map(str, dims))}]"


def refuse_unsupported(config: Mapping[str, Any]) -> None:
    """Raise BackendError for features of the compiled backend that tritonlab's version lacks."""
    absent = [field for field in ("batch_input", "batch_output") if config.get(field)]
    if config.get("sequence_batching", {}).get("state"):
        absent.append("sequence_batching.state")
    if any(each.get("allow_ragged_batch") for each in config["input"]):
        absent.append("allow_ragged_batch")
    if absent:
        name = config["name"]
        raise BackendError(
            f"model '{name}' has {' and '.join(absent)}, which tritonlab's {config['backend']} backend is without. "
            f'tritonlab.reset(backends={{"{name}": "borrow:HOST:8001"}}) lets a running server answer for it, '
            '"stand-in" invents answers of the right shapes',
            "Unsupported",
        )


# -- requests


class Batch:
    """The requests of one execution as one batch. `batches`: whether their first dimension is the batch dimension."""

    def __init__(self, requests: Sequence[Any], batches: bool) -> None:
        self._requests = requests
        self._batches = batches
        self._arrays = [{tensor.name(): tensor.as_numpy() for tensor in request.inputs()} for request in requests]
        self._sizes = [next(iter(each.values())).shape[0] if batches else 1 for each in self._arrays]

    @property
    def wanted(self) -> set[str]:
        """The outputs that at least one of the requests has requested."""
        return set().union(*(request.requested_output_names() for request in self._requests))

    def inputs(self) -> dict[str, Any]:
        """Return the arrays of the inputs. A single request's arrays are used in place; several requests' are
        concatenated once, as in Triton."""
        if len(self._arrays) == 1:
            return self._arrays[0]
        return {name: np.concatenate([each[name] for each in self._arrays]) for name in self._arrays[0]}

    def responses(self, outputs: Mapping[str, Any]) -> list[Any]:
        """Return each request's part of the outputs."""
        responses, start = [], 0
        for size in self._sizes:
            tensors, error = [], None
            for name, array in outputs.items():
                if self._batches:
                    if array.shape[0] < start + size:
                        error = _too_small(name, start + size, array.shape[0])
                        break
                    array = array[start : start + size]
                tensors.append(pb_utils.Tensor(name, array))
            responses.append(pb_utils.InferenceResponse([] if error else tensors, error))
            start += size
        return responses

    def failed(self, text: str, code: Any) -> list[Any]:
        """Return the same error for each request."""
        return [pb_utils.InferenceResponse([], pb_utils.TritonError(text, code)) for _ in self._requests]


class Senders:
    """The threads of an instance that send responses."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, send: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=send, args=arguments, daemon=True)
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def _too_small(name: str, needed: int, size: int) -> Any:
    text = (
        f"failed to split the output tensor '{name}' in responses: expected batch size of atleast {needed} in model "
        f"output, got {size}"
    )
    return pb_utils.TritonError(text, pb_utils.TritonError.UNSUPPORTED)
