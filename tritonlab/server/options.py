"""`Options` says how a server runs, under the names of tritonserver's flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.clock import Clock
from ..core.log_settings import LogSetting
from ..core.metrics_config import MetricsConfig
from ..core.trace_settings import TraceSetting
from ..instances.rate_limiter import Limits
from .server_metadata import SERVER_NAME


@dataclass(frozen=True, kw_only=True)
class Options:
    """Holds the options of a `Server`, with the names of NVIDIA's in-process package `tritonserver` and Triton's
    defaults.
    """

    server_id: str = SERVER_NAME
    #: `none` loads every model of the repositories at the start, `poll` also looks for what has changed, `explicit`
    #: loads only `startup_models` ("*" is all), the rest with `load`
    model_control_mode: str = "none"
    startup_models: Sequence[str] = ()
    repository_poll_secs: float = 15
    #: whether models of one name in several repositories are served side by side (rule 5.11.12), not refused
    model_namespacing: bool = False
    #: models that load at the same time at the start
    model_load_thread_count: int = 4
    #: how often a version that fails to load is tried again, at once (rule 2.5.9); negative is without end
    model_load_retry_count: int = 0
    #: whether a model that fails at the start fails the server; all others are tried before
    exit_on_error: bool = True
    strict_model_config: bool = False
    #: a model's `configs/<model_config_name>.pbtxt` is its configuration if it is there, else `config.pbtxt` (rule
    #: 5.1.7)
    model_config_name: str = ""
    strict_readiness: bool = True
    #: the keys of `--backend-config=python,…` (rule 2.9)
    backend_config: Mapping[str, str] | None = None
    #: where Python-based backends are, `<backend_directory>/<name>/model.py` (rule 2.11)
    backend_directory: str | Path | None = None
    #: `"local,size=<bytes>"` makes room for the answers of models with `response_cache` (rule 5.9)
    cache_config: str = ""
    #: `"execution_count"` minds the resources of `rate_limiter` (rule 5.10.2)
    rate_limit: str = "off"
    #: how much of each there is: `{name: count}` or `{name: {device: count}}`
    rate_limit_resource: Limits | None = None
    #: False keeps the executions of `model_warmup` out of the statistics
    count_warmup: bool = True
    trace_setting: TraceSetting | None = None
    log_setting: LogSetting | None = None
    metrics_config: MetricsConfig | None = None
    #: bytes that processes may take which have imported what models import, so that the next load need not; None is a
    #: quarter of the machine's memory, 0 starts every model in a new process
    warm: int | None = None
    #: how long a request may wait before a warning in `logs()` says what for (0: for ever)
    watchdog_seconds: float = 10.0
    #: how many failures of each model are kept, with their requests and variables, for `model.failures`
    kept_failures: int = 10
    #: for how long the last exception of each instance's `execute` is kept alive in its process for
    #: `%triton postmortem`, with all that its frames hold, on the GPU too (0: not at all; a notebook: 10 minutes)
    postmortem_seconds: float = 0.0
    #: how long a version that a reload has replaced may go on with its last requests before it is killed; None
    #: is for ever, as in Triton
    drain_seconds: float | None = None
    #: whether the notebook's server records what it does from its start (`tritonlab.recording()`); if not, a view, the
    #: panel or that call begins it. Other servers are recorded from then on in any case
    recording: bool = True
    #: bytes by device of the GPU memory in which tensors cross to models; 64 MB where nothing is said
    cuda_memory_pool_sizes: Mapping[int, int] | None = None
    #: how many GPUs to simulate in the place of this machine's, so that models for GPUs load and their placement can be
    #: tried where there is none; 0 takes those of the machine
    simulated_gpus: int = 0
    clock: Clock | None = None
