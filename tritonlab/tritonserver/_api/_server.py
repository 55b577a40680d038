"""The server and the classes to configure and inspect it, as in NVIDIA's module of this name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ...core.process_bound import ProcessBound
from ...core.status import Code, InternalError, ModelLoadError
from ...repository.model_repository_manager import check_repositories
from ...server.inference_server import InferenceServer
from ...server.observe.log_writer import LogWriter
from .._c.triton_bindings import InvalidArgumentError, UnavailableError, UnsupportedError
from .._c.triton_bindings import TRITONSERVER_InstanceGroupKind as InstanceGroupKind
from .._c.triton_bindings import TRITONSERVER_LogFormat as LogFormat
from .._c.triton_bindings import TRITONSERVER_MetricFormat as MetricFormat
from .._c.triton_bindings import TRITONSERVER_MetricKind as MetricKind
from .._c.triton_bindings import TRITONSERVER_ModelControlMode as ModelControlMode
from .._c.triton_bindings import TRITONSERVER_RateLimitMode as RateLimitMode
from ._checks import check_flag, check_member, check_text
from ._log import LogForwarder
from ._metric import METRICS, Metric, MetricFamily
from ._model import Model
from ._options import ModelLoadDeviceLimit, Options, RateLimiterResource
from ._running import RunningServer

__all__ = [
    "InstanceGroupKind",
    "LogFormat",
    "Metric",
    "MetricFamily",
    "MetricFormat",
    "MetricKind",
    "ModelControlMode",
    "ModelDictionary",
    "ModelLoadDeviceLimit",
    "Options",
    "RateLimitMode",
    "RateLimiterResource",
    "Server",
]

#: The possible states of an unloaded version.
_UNLOADED = (None, "UNAVAILABLE")


class ModelDictionary(dict[Any, Model]):
    """Models by (name, version). A name alone gives a handle on its latest version."""

    def __init__(self, server: Server, models: list[Model]) -> None:
        super().__init__({(model.name, model.version): model for model in models})
        self._server = server
        self._model_names = [model.name for model in models]

    def __getitem__(self, key: Any) -> Model:
        found = super().get(key) if isinstance(key, tuple) else None
        if found is not None:
            return found
        if not isinstance(key, tuple) and key in self._model_names:
            return Model(self._server, key)
        raise KeyError(f"Unknown Model: {key}")


class Server(ProcessBound):
    """A Triton server in this process. It serves from `start` until `stop`, or until it, its models and its requests
    are no longer referenced.
    """

    def __init__(self, options: Options | None = None, **fields: Any) -> None:
        """Take `options`, or make them from the given fields."""
        self.options = options if options is not None else Options(**fields)
        self._server: RunningServer | None = None

    # -- life cycle

    def start(
        self, wait_until_ready: bool = False, polling_interval: float = 0.1, timeout: float | None = None
    ) -> Server:
        """Check the options, start the server, and load the models that the options name.

        Raises TypeError, InvalidArgumentError or InternalError for bad options; UnavailableError if it is not ready
        after `timeout` seconds.
        """
        if self._server is not None:
            raise InvalidArgumentError("Server already started")
        self._server = _start(self.options)
        if wait_until_ready:
            _poll(self.ready, polling_interval, timeout)
            if not self.ready():
                raise UnavailableError("Timeout before ready")
        return self

    def stop(self) -> None:
        """Unload all models and end the server."""
        self._running().stop()
        self._server = None

    def _running(self) -> RunningServer:
        if self._server is None:
            raise InvalidArgumentError("Server not started")
        return self._server

    @property
    def _core(self) -> InferenceServer:
        return self._running().core

    def _ptr(self) -> NoReturn:
        """Raise an error for `tritonfrontend`, which needs the C library's pointer."""
        self._running()
        raise UnsupportedError("there is no C API server to point to; `tritonlab serve` has its endpoints")

    # -- repositories

    def register_model_repository(self, repository_path: str, name_mapping: dict[str, str] | None = None) -> None:
        """Add a repository. `name_mapping` maps a directory's name to the model's name. Raises UnsupportedError
        outside the explicit mode."""
        core = self._core
        for directory, name in (name_mapping or {}).items():
            check_text("directory of a model", directory)
            check_text("name of a model", name)
        core.register_model_repository(check_text("repository_path", repository_path), name_mapping)

    def unregister_model_repository(self, repository_path: str) -> None:
        core = self._core
        core.unregister_model_repository(check_text("repository_path", repository_path))

    def poll_model_repository(self) -> None:
        self._core.poll_model_repository()

    # -- the index

    def metadata(self) -> dict[str, Any]:
        return self._core.server_metadata()

    def live(self) -> bool:
        return self._core.live()

    def ready(self) -> bool:
        return self._core.ready()

    def model(self, model_name: str, model_version: int = -1) -> Model:
        """Return a handle on a model, which need not be loaded."""
        return Model(self, model_name, model_version)

    def models(self, exclude_not_ready: bool = False) -> ModelDictionary:
        """Return every model of the repositories by name and version; -1 for one that was never loaded."""
        index = self._core.index(check_flag("exclude_not_ready", exclude_not_ready))
        found = []
        for entry in index:
            version = int(entry.get("version", -1))
            found.append(
                Model(
                    server=self,
                    name=entry["name"],
                    version=version,
                    state=entry.get("state"),
                    reason=entry.get("reason"),
                )
            )
        return ModelDictionary(self, found)

    def metrics(self, metric_format: MetricFormat = MetricFormat.PROMETHEUS) -> str:
        """Return Prometheus text; "" if `Options.metrics` is off."""
        running = self._running()
        check_member("metric_format", metric_format, MetricFormat)
        return running.metrics()

    # -- model control

    def load(self, model_name: str, parameters: Mapping[str, str | int | bool | bytes] | None = None) -> Model:
        """Load or reload a model and wait for it.

        `parameters`: "config" is a configuration as JSON text, and "file:1/model.py" the bytes of a file, which replace
        the repository's. Raises InternalError for parameters that cannot be read, InvalidArgumentError for a model that
        cannot be loaded, and other TritonErrors, depending on the failure.
        """
        core = self._core
        check_text("model_name", model_name)
        config, files = _load_parameters(model_name, parameters or {})
        core.control.load(model_name, config, files or None)
        return self.model(model_name)

    def unload(
        self,
        model: str | Model,
        unload_dependents: bool = False,
        wait_until_unloaded: bool = False,
        polling_interval: float = 0.1,
        timeout: float | None = None,
    ) -> None:
        """Take a model out of service; an unknown model is ignored. With `wait_until_unloaded`, wait until the model's
        versions have ended, for `timeout` seconds at most.
        """
        core = self._core
        name = check_text("model name", model.name if isinstance(model, Model) else model)
        core.control.unload(name, bool(unload_dependents), wait=False)
        if wait_until_unloaded:
            versions = [key for key in self.models() if key[0] == name]
            _poll(lambda: self._are_unloaded(versions), polling_interval, timeout)

    def _are_unloaded(self, versions: list[tuple[str, int]]) -> bool:
        """Return whether these versions have ended; versions that are no longer in the index have."""
        models = self.models()
        return all(key not in models or models[key].state in _UNLOADED for key in versions)


def _start(options: Options) -> RunningServer:
    core_options = options._checked()
    repositories = options.model_repository
    if not repositories:
        raise InvalidArgumentError("--model-repository must be specified")
    check_repositories(repositories)
    core = InferenceServer(list(dict.fromkeys(repositories)), core_options, load_models=False, metrics=METRICS)
    callback = options.log_callback
    log = LogWriter(core.log_settings) if callback is None else LogForwarder(core.log_settings, callback)
    running = RunningServer(core, log, options.exit_timeout, bool(options.metrics))
    core.instruments.add(log)
    try:
        failed = core.load_startup_models()
        if failed and core_options.exit_on_error:
            raise InternalError("failed to load all models")
    except BaseException:
        running.stop()
        raise
    return running


def _poll(holds: Callable[[], bool], interval: float, timeout: float | None) -> None:
    """Wait until `holds()` is true, for `timeout` seconds at most."""
    start = time.monotonic()
    while not holds() and (timeout is None or time.monotonic() - start < timeout):
        time.sleep(interval)


def _load_parameters(name: str, parameters: Mapping[str, Any]) -> tuple[str | None, dict[str, bytes]]:
    """Return the config and the files of a load. Raises TypeError for a value that no parameter can have,
    ModelLoadError for an unknown parameter."""
    config: str | None = None
    files: dict[str, bytes] = {}
    unknown = ""
    for key, value in parameters.items():
        check_text("name of a load parameter", key)
        kind = _PARAMETER_KINDS.get(type(value))
        if kind is None:
            raise TypeError(f"load parameter {key!r} must be bytes, a str, an int or a bool, not {value!r}")
        if key == "config" and isinstance(value, str):
            config = value
        elif key.startswith("file:") and isinstance(value, (bytes, str)):
            files[key] = value if isinstance(value, bytes) else value.encode()
        elif config is None:  # parameters after the configuration are ignored
            unknown = unknown or f"Unrecognized load parameter '{key}' with type '{kind}'"
    if unknown:
        text = f"failed to load '{name}', failed to poll from model repository"
        raise ModelLoadError(text, code=Code.INTERNAL, reason=unknown)
    return config, files


_PARAMETER_KINDS = {bytes: "BYTES", str: "STRING", int: "INT", bool: "BOOL"}
