"""Unit tests of a model.py in the test's own process, with breakpoints and coverage, without a server.

    class_ = load_class("models/add_sub")
    model = class_()
    model.initialize(build_args("models/add_sub"))
    request = build_request({"INPUT0": a, "INPUT1": b})
    (response,) = model.execute([request])

FakeTriton replaces the server if the model logs, counts, sends through a response sender or calls other models.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from .core.config.model_config import ModelConfig, parse_pbtxt, read_config
from .core.config.model_config_rules import autofill, instance_args, instance_specs, normalize_instance_groups
from .core.inference.tensor import Tensor as ServerTensor
from .core.metrics.metric_registry import MetricRegistry
from .core.status import TritonError
from .repository.layout import CONFIG_FILE, MODEL_FILE, version_numbers
from .stub._pb_stub.api import bridge
from .stub._pb_stub.api.infer_request import InferenceRequest
from .stub._pb_stub.api.infer_response import InferenceResponse
from .stub._pb_stub.api.parameters_text import encode_parameters
from .stub._pb_stub.api.pb_tensor import Tensor
from .stub._pb_stub.wire.message_bodies import IsModelReady, MetricFamilyDel, MetricFamilyNew, MetricNew, MetricOp

_handles = itertools.count(1)

#: The target of a BLS call: a model object with `execute`, or a function of the request.
Callee = Any


def load_class(path: str | PathLike[str]) -> Any:
    """Return the TritonPythonModel class of a model.py, or of the newest version in a model directory.

    As in a stub, the version and the model directory join the end of `sys.path`, so that helper files are found
    (rule 2.1.5). Raises FileNotFoundError, AttributeError for a file without the class, and errors of the import.
    """
    file = _model_file(Path(path))
    name = ".".join((*file.parent.parts[-2:], file.stem))  # like the stub's `1.model`, but one per model
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    for directory in (str(file.parent), str(file.parent.parent)):
        if directory not in sys.path:
            sys.path.append(directory)
    spec.loader.exec_module(module)
    return module.TritonPythonModel


def build_args(
    config: str | PathLike[str], *, name: str = "", gpu_ids: Sequence[int] = (), instance: int = 0
) -> dict[str, str]:
    """Return the `args` of `initialize` (rule 2.3.1) for a model directory or the text of a config.pbtxt.

    `name`: the model's name if neither has it. `instance`: the number of the config's instance. Raises ConfigError.
    """
    if isinstance(config, str) and _is_text(config):
        directory, written, version = Path(name), parse_pbtxt(config, "the config text"), 1
    else:
        directory = Path(config)
        written = read_config(directory / CONFIG_FILE)
        version = _newest_version(directory, written)
    message = autofill(written, model_name=name or directory.name or "model", files=[MODEL_FILE])
    full = normalize_instance_groups(message, gpu_ids=gpu_ids)
    return instance_args(full, instance_specs(full)[instance], model_directory=str(directory), version=version)


def build_request(
    inputs: Mapping[str, Any],
    *,
    request_id: str = "",
    correlation_id: int | str = 0,
    flags: int = 0,
    timeout: int = 0,
    parameters: Mapping[str, bool | int | str] | None = None,
    requested_outputs: Sequence[str] = (),
    model_name: str = "model",
    model_version: int = 1,
    decoupled: bool = False,
) -> InferenceRequest:
    """Return a request for `execute`: its tensors hold copies of `inputs`, as if they had come through a server.

    Args:
        inputs: arrays, torch tensors, lists or text, by name.
        requested_outputs: the outputs for the client; a server fills in all outputs of the model's config.
        decoupled: whether its response sender follows the rules of decoupled models (rule 1.9.2).

    Raises:
        InvalidArgumentError: a value cannot become a tensor.
    """
    return InferenceRequest._received(
        handle=next(_handles),
        request_id=request_id,
        correlation_id=correlation_id,
        flags=flags,
        timeout=timeout,
        parameters_json=encode_parameters(dict(parameters or {})),
        requested_output_names=frozenset(requested_outputs),
        inputs=[_received(name, ServerTensor.from_any(value)) for name, value in inputs.items()],
        model_name=model_name,
        model_version=model_version,
        decoupled=decoupled,
    )


class FakeTriton(bridge.Bridge):
    """The server around the models of one test; use it as a context manager.

    `models`: the targets of BLS calls, by name: a model object with `execute`, or a function of the request that
    returns a response or several. `logs` are (level, text); `sent` are (request handle, response or None, flags) of
    response senders; `cancelled` the handles of requests whose client cancelled: `fake.cancel(request)`.
    """

    def __init__(self, models: Mapping[str, Callee] | None = None, *, model_dir: str = "model/1") -> None:
        self.phase = "execute"
        self.instance_name = "model_0"
        self.model_dir = model_dir
        self.models = dict(models or {})
        self.logs: list[tuple[str, str]] = []
        self.sent: list[tuple[int, InferenceResponse | None, int]] = []
        self.cancelled: set[int] = set()
        self._metrics = MetricRegistry()
        self._calls: dict[type[Any], Callable[..., Any]] = {
            MetricFamilyNew: self._metrics.family,
            MetricFamilyDel: self._metrics.delete_family,
            MetricNew: self._metrics.metric,
            MetricOp: self._metrics.operate,
            IsModelReady: lambda name, version: name in self.models,
        }
        self._before: list[bridge.Bridge] = []

    def __enter__(self) -> FakeTriton:
        self._before.append(bridge.current())
        bridge.install(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        bridge.install(self._before.pop())

    def responses(self, request: InferenceRequest) -> list[InferenceResponse]:
        """Return the responses for `request` that the model has sent through its response sender so far."""
        return [response for handle, response, _ in self.sent if handle == request._handle and response is not None]

    def closed(self, request: InferenceRequest) -> bool:
        """Return whether the final flag was sent for `request`."""
        return any(handle == request._handle and flags for handle, _, flags in self.sent)

    def cancel(self, request: InferenceRequest) -> None:
        """Make `request.is_cancelled()` true from now on."""
        self.cancelled.add(request._handle)

    def metrics(self) -> str:
        """Return the custom metrics as Prometheus text."""
        return self._metrics.expose()

    # -- called by the author's objects

    def log(self, level: int, message: str, file: str, line: int) -> None:
        self.logs.append((("INFO", "WARNING", "ERROR", "VERBOSE")[level], message))

    def call(self, message: Any) -> Any:
        function = self._calls.get(type(message))
        if function is None:
            return super().call(message)
        try:
            return function(*message)
        except TritonError as error:
            text = f"Failed to process the request for model '{self.instance_name}', message: {error.message}"
            raise bridge.BridgeError(text, int(error.code)) from None

    def is_cancelled(self, handle: int) -> bool:
        return handle in self.cancelled

    def send_response(self, handle: int, response: InferenceResponse | None, flags: int) -> None:
        self.sent.append((handle, response, flags))

    def infer(self, request: InferenceRequest, decoupled: bool) -> Iterator[InferenceResponse]:
        return iter(self._answers(request, decoupled))

    def _answers(self, request: InferenceRequest, decoupled: bool) -> list[InferenceResponse]:
        callee = self.models.get(request._model_name)
        if callee is None:
            # rule 4.2.1
            text = f"Failed for execute the inference request. Model '{request._model_name}' is not ready."
            raise bridge.BridgeError(f"Model {request._model_name} - Error when running inference: {text}")
        received = _delivered(request, decoupled)
        answer = callee.execute([received]) if hasattr(callee, "execute") else callee(received)
        returned = [r for r in (answer if isinstance(answer, Iterable) else [answer]) if r is not None]
        return [_answered(response, request) for response in returned or self.responses(received)]


def _delivered(request: InferenceRequest, decoupled: bool) -> InferenceRequest:
    """Return a BLS request in the form for the called model."""
    return InferenceRequest._received(
        handle=next(_handles),
        request_id=request._request_id,
        correlation_id=request._correlation_id,
        flags=request._flags,
        timeout=request._timeout,
        parameters_json=request._parameters,
        requested_output_names=request._requested,
        inputs=[_copied(tensor._name, *tensor._wire()) for tensor in request._inputs],
        model_name=request._model_name,
        model_version=request._model_version,
        decoupled=decoupled,
    )


def _answered(response: InferenceResponse, request: InferenceRequest) -> InferenceResponse:
    """Return the response of a called model in the form for the caller: the requested outputs, in their own memory."""
    wanted = [t for t in response._tensors if not request._requested or t._name in request._requested]
    tensors = [] if response._error is not None else [_copied(tensor._name, *tensor._wire()) for tensor in wanted]
    return InferenceResponse._received(tensors, response._error, response._parameters)


def _received(name: str, tensor: ServerTensor) -> Tensor:
    return _copied(name, int(tensor.datatype), list(tensor.shape), tensor.to_host().data)


def _copied(name: str, datatype: int, shape: list[int], data: Any) -> Tensor:
    content = data.tobytes() if hasattr(data, "tobytes") else bytes(data)
    return Tensor._received(name, datatype, shape, view=memoryview(content), lease=None)


def _model_file(path: Path) -> Path:
    """Return `path`, or the model.py of the newest version in it, under the name given in the config."""
    path = path.resolve()
    if not path.is_dir():
        return path
    config = read_config(path / CONFIG_FILE)
    return path / str(_newest_version(path, config)) / (config.default_model_filename or MODEL_FILE)


def _is_text(config: str) -> bool:
    return "\n" in config or (not {":", "{"}.isdisjoint(config) and not Path(config).is_dir())


def _newest_version(directory: Path, config: ModelConfig) -> int:
    name = config.default_model_filename or MODEL_FILE
    versions = [version for version in version_numbers(directory) if (directory / str(version) / name).is_file()]
    if not versions:
        raise FileNotFoundError(f"{directory} is not a model directory: it has no <version>/{name}")
    return max(versions)
