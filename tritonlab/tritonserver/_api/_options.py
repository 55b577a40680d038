"""The options of a server, with the fields of NVIDIA's package, and their translation into tritonlab's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...core.metrics.metrics_config import MetricsConfig
from ...core.observe.log_settings import LogSetting
from ...server.options import Options as CoreOptions
from .._c.triton_bindings import InvalidArgumentError
from .._c.triton_bindings import TRITONSERVER_InstanceGroupKind as InstanceGroupKind
from .._c.triton_bindings import TRITONSERVER_LogFormat as LogFormat
from .._c.triton_bindings import TRITONSERVER_ModelControlMode as ModelControlMode
from .._c.triton_bindings import TRITONSERVER_RateLimitMode as RateLimitMode
from ._checks import check_flag, check_float, check_member, check_signed, check_text, check_unsigned
from ._log import LogCallback


@dataclass(slots=True)
class RateLimiterResource:
    """The `count` of a resource on a device, or on each with -1."""

    name: str
    count: int
    device: int


@dataclass(slots=True)
class ModelLoadDeviceLimit:
    """The fraction of a device's memory that models may take."""

    kind: InstanceGroupKind
    device: int
    fraction: float


@dataclass(slots=True)
class Options:
    """The options of a `Server`. They may be set at any time and are checked when it starts.

    `log_callback(level, file, line, milliseconds, text)` receives the records that the log settings select, and nothing
    is written to `log_file` or stderr then; it is called on the server's threads.

    Without effect here: `pinned_memory_pool_size`, `min_supported_compute_capability`, `enable_peer_access`,
    `model_load_device_limits`, `cache_directory`, `repo_agent_directory`, `buffer_manager_thread_count` and
    `host_policies`.
    """

    model_repository: str | list[str] = field(default_factory=list)
    server_id: str = "triton"
    model_control_mode: ModelControlMode = ModelControlMode.NONE
    startup_models: list[str] = field(default_factory=list)
    strict_model_config: bool = False
    rate_limiter_mode: RateLimitMode = RateLimitMode.OFF
    rate_limiter_resources: list[RateLimiterResource] = field(default_factory=list)
    pinned_memory_pool_size: int = 1 << 28
    cuda_memory_pool_sizes: dict[int, int] = field(default_factory=dict)
    cache_config: dict[str, dict[str, Any]] = field(default_factory=dict)
    cache_directory: str = "/opt/tritonserver/caches"
    min_supported_compute_capability: float = 6.0
    exit_on_error: bool = True
    strict_readiness: bool = True
    exit_timeout: int = 30
    buffer_manager_thread_count: int = 0
    model_load_thread_count: int = 4
    model_load_retry_count: int = 0
    model_namespacing: bool = False
    enable_peer_access: bool = True
    log_file: str | None = None
    log_info: bool = False
    log_warn: bool = False
    log_error: bool = False
    log_format: LogFormat = LogFormat.DEFAULT
    log_verbose: int = 0
    metrics: bool = True
    gpu_metrics: bool = True
    cpu_metrics: bool = True
    metrics_interval: int = 2000
    backend_directory: str = "/opt/tritonserver/backends"
    repo_agent_directory: str = "/opt/tritonserver/repoagents"
    model_load_device_limits: list[ModelLoadDeviceLimit] = field(default_factory=list)
    backend_configuration: dict[str, dict[str, str]] = field(default_factory=dict)
    host_policies: dict[str, dict[str, str]] = field(default_factory=dict)
    metrics_configuration: dict[str, dict[str, str]] = field(default_factory=dict)
    log_callback: LogCallback | None = None

    def _checked(self) -> CoreOptions:
        """Return the options for starting a tritonlab server. Afterwards `model_repository` is a list, and a log level
        enables the levels above it. Raises TypeError and InvalidArgumentError, in the order of NVIDIA's package."""
        check_text("server_id", self.server_id)
        if self.model_repository is None:
            raise InvalidArgumentError("Model repository must be specified.")
        if not isinstance(self.model_repository, list):
            self.model_repository = [self.model_repository]
        for path in self.model_repository:
            check_text("model_repository", path)
        self._check_models_and_limits()
        self._check_numbers()
        self._check_log()
        self._check_settings()
        mode = self.model_control_mode
        return CoreOptions(
            server_id=self.server_id,
            model_control_mode=mode.name.lower(),
            startup_models=tuple(self.startup_models),
            model_namespacing=bool(self.model_namespacing),
            model_load_thread_count=max(self.model_load_thread_count, 1),
            model_load_retry_count=self.model_load_retry_count,
            exit_on_error=bool(self.exit_on_error),
            strict_model_config=bool(self.strict_model_config),
            strict_readiness=bool(self.strict_readiness),
            backend_config={
                **self.backend_configuration.get("", {}),
                **{name: dict(settings) for name, settings in self.backend_configuration.items() if name},
            },
            backend_directory=self.backend_directory,
            cache_config=self._cache(),
            rate_limit="execution_count" if self.rate_limiter_mode is RateLimitMode.EXEC_COUNT else "off",
            rate_limit_resource=self._resources(),
            cuda_memory_pool_sizes=dict(self.cuda_memory_pool_sizes),
            log_setting=self._log_setting(),
            metrics_config=MetricsConfig.from_settings(
                {name: value for settings in self.metrics_configuration.values() for name, value in settings.items()},
                interval_ms=self.metrics_interval,
                cpu=bool(self.cpu_metrics),
                gpu=bool(self.gpu_metrics),
            ),
        )

    # -- checks

    def _check_models_and_limits(self) -> None:
        check_member("model_control_mode", self.model_control_mode, ModelControlMode)
        for name in self.startup_models:
            check_text("startup_models", name)
        check_flag("strict_model_config", self.strict_model_config)
        check_member("rate_limiter_mode", self.rate_limiter_mode, RateLimitMode)
        for resource in self.rate_limiter_resources:
            check_text("name of a rate limiter resource", resource.name)
            check_unsigned("count of a rate limiter resource", resource.count, 64)
            check_signed("device of a rate limiter resource", resource.device, 32)
        check_unsigned("pinned_memory_pool_size", self.pinned_memory_pool_size, 64)
        for device, size in self.cuda_memory_pool_sizes.items():
            check_signed("device of a CUDA memory pool", device, 32)
            check_unsigned("size of a CUDA memory pool", size, 64)
        for name in self.cache_config:
            check_text("name of a cache", name)
        check_text("cache_directory", self.cache_directory)

    def _check_numbers(self) -> None:
        check_float("min_supported_compute_capability", self.min_supported_compute_capability)
        check_flag("exit_on_error", self.exit_on_error)
        check_flag("strict_readiness", self.strict_readiness)
        for name in (
            "exit_timeout",
            "buffer_manager_thread_count",
            "model_load_thread_count",
            "model_load_retry_count",
        ):
            check_unsigned(name, getattr(self, name))
        check_flag("model_namespacing", self.model_namespacing)
        check_flag("enable_peer_access", self.enable_peer_access)

    def _check_log(self) -> None:
        if self.log_file:
            check_text("log_file", self.log_file)
        if self.log_verbose > 0:
            self.log_info = True
        if self.log_info:
            self.log_warn = True
        if self.log_warn:
            self.log_error = True
        for name in ("log_info", "log_warn", "log_error"):
            check_flag(name, getattr(self, name))
        check_member("log_format", self.log_format, LogFormat)
        check_signed("log_verbose", self.log_verbose, 32)
        if self.log_callback is not None and not callable(self.log_callback):
            raise TypeError(f"log_callback must be callable or None, not {self.log_callback!r}")

    def _check_settings(self) -> None:
        for name in ("metrics", "cpu_metrics", "gpu_metrics"):
            check_flag(name, getattr(self, name))
        check_unsigned("metrics_interval", self.metrics_interval, 64)
        check_text("backend_directory", self.backend_directory)
        check_text("repo_agent_directory", self.repo_agent_directory)
        for limit in self.model_load_device_limits:
            check_member("kind of a device limit", limit.kind, InstanceGroupKind)
            check_signed("device of a device limit", limit.device, 32)
            check_float("fraction of a device limit", limit.fraction)
        for name in ("host_policies", "metrics_configuration", "backend_configuration"):
            for owner, settings in getattr(self, name).items():
                check_text(name, owner)
                for setting, value in settings.items():
                    check_text(f"setting of {name}", setting)
                    check_text(f"value in {name}", value)

    # -- the translation

    def _cache(self) -> str:
        """Return the cache in the form of `--cache-config`; NVIDIA's package fails for every cache."""
        return ",".join(
            [name for name in self.cache_config]
            + [f"{key}={value}" for settings in self.cache_config.values() for key, value in settings.items()]
        )

    def _resources(self) -> dict[str, int | dict[int, int]]:
        found: dict[str, int | dict[int, int]] = {}
        for resource in self.rate_limiter_resources:
            known = found.get(resource.name)
            if resource.device < 0:
                found[resource.name] = resource.count
            else:
                by_device = known if isinstance(known, dict) else {}
                found[resource.name] = {**by_device, resource.device: resource.count}
        return found

    def _log_setting(self) -> LogSetting:
        return LogSetting(
            log_file=self.log_file or "",
            log_info=bool(self.log_info),
            log_warning=bool(self.log_warn),
            log_error=bool(self.log_error),
            log_verbose_level=self.log_verbose,
            log_format="ISO8601" if self.log_format is LogFormat.ISO8601 else "default",
        )
