"""The options of a server, under the names of tritonserver's flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.clock import Clock
from ..core.metrics.metrics_config import MetricsConfig
from ..core.observe.log_settings import LogSetting
from ..core.observe.trace_settings import TraceSetting
from ..core.unknown_option import explains_unknown
from ..engine.execution.rate_limiter import Limits
from .server_metadata import SERVER_NAME

#: Bytes of responses that may wait for the client of one stream.
MAX_UNREAD_SIZE = 256 << 20


@explains_unknown
@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a `Server`, with the names of NVIDIA's in-process package `tritonserver` and Triton's
    defaults.

    server_id: the server's name in its metadata.
    model_control_mode: `none` loads every model of the repositories at the start, `poll` also looks for changes,
        `explicit` loads only `startup_models`, the rest with `load`.
    startup_models: the models that the mode `explicit` loads at the start; "*" is all.
    repository_poll_secs: seconds between two looks of the mode `poll`.
    model_namespacing: whether models of one name in several repositories are served together (rule 5.11.12), not
        refused.
    model_load_thread_count: how many models load at the same time at the start.
    model_load_retry_count: how often a version that fails to load is tried again, at once (rule 2.5.9); negative is
        without end.
    exit_on_error: whether a failed model at the start fails the server, after all others were tried.
    strict_model_config: whether `auto_complete_config` is left out, and every model needs a config.pbtxt (rule 5.1.5).
    model_config_name: `configs/<model_config_name>.pbtxt` of a model is its configuration if it exists, else
        `config.pbtxt` (rule 5.1.7).
    strict_readiness: whether the server is ready only while every known version serves, or was unloaded on purpose
        (rule 5.11.9).
    backend_config: the keys of `--backend-config=…`, for all backends, and for single ones as a dict by name:
        `{"onnxruntime": {"default-max-batch-size": "8"}}` (rules 2.9, 2.14.6).
    backend_directory: where Python-based backends are, `<backend_directory>/<name>/model.py` (rule 2.11).
    backends: the source of answers for models of other backends than Python's, by the model's or the backend's name:
        "real", "borrow:host:8001", "recorded", "stand-in", or a dict with `use` and the fields of rule 2.13.3. A
        `tritonlab.toml` next to the repository does the same for names that are missing here.
    cache_config: `"local,size=<bytes>"` is the room for the answers of models with `response_cache` (rule 5.9).
    rate_limit: `"execution_count"` observes the resources of `rate_limiter` (rule 5.10.2).
    rate_limit_resource: the amount of each resource, `{name: count}` or `{name: {device: count}}`.
    count_warmup: False keeps the executions of `model_warmup` out of the statistics.
    trace_setting, log_setting, metrics_config: the traced requests, the records of the log, the shown metrics.
    warm: the most bytes of processes that import the models' modules in advance, so that the next load is quicker;
        None is a quarter of the machine's memory, 0 starts every model in a new process.
    watchdog_seconds: how long a request may wait before a warning in `logs()` has the reason (0: for ever).
    kept_failures: how many failures of each model are kept, with their requests and variables, for `model.failures`.
    postmortem_seconds: for how long the last exception of each instance's `execute` is kept alive in its process for
        `%triton postmortem`, with all objects of its frames, on the GPU too (0: not at all; a notebook: 10 minutes).
    drain_seconds: how long a replaced version may work on its last requests before it is killed;
        None is for ever, as in Triton (a notebook: a minute).
    recording: whether the notebook's server is recorded from its start (`tritonlab.recording()`); if not, a view, the
        panel or that call begins the recording. Other servers are recorded from then on in any case.
    cuda_memory_pool_sizes: bytes by device of the GPU memory in which tensors cross to models; 64 MB by default.
    max_message_size: bytes of one request over HTTP or gRPC, and of one answer over gRPC; all requests together may
        have twice as many. 0 is a quarter of the memory, for a message over gRPC an eighth (rule 6.3.8).
    max_unread_size: bytes of unread responses that may wait for the client of one stream over HTTP or gRPC; beyond
        that its request is cancelled and its stream ends with an error (rule 6.9.4).
    audit_reads: whether an audit hook in each stub records the reads of its model, for `model.reads()`; each event of
        Python then costs 2 us, so only pre-flight's own server has it.
    simulated_gpus: how many GPUs to simulate in place of this machine's, to load models for GPUs and try their
        placement without one; 0 uses the machine's GPUs.
    clock: the source of time; None is the machine's clock, tests use their own.
    """

    server_id: str = SERVER_NAME
    model_control_mode: str = "none"
    startup_models: Sequence[str] = ()
    repository_poll_secs: float = 15
    model_namespacing: bool = False
    model_load_thread_count: int = 4
    model_load_retry_count: int = 0
    exit_on_error: bool = True
    strict_model_config: bool = False
    model_config_name: str = ""
    strict_readiness: bool = True
    backend_config: Mapping[str, str | Mapping[str, str]] | None = None
    backend_directory: str | Path | None = None
    backends: Mapping[str, str | Mapping[str, Any]] | None = None
    cache_config: str = ""
    rate_limit: str = "off"
    rate_limit_resource: Limits | None = None
    count_warmup: bool = True
    trace_setting: TraceSetting | None = None
    log_setting: LogSetting | None = None
    metrics_config: MetricsConfig | None = None
    warm: int | None = None
    watchdog_seconds: float = 10.0
    kept_failures: int = 10
    postmortem_seconds: float = 0.0
    drain_seconds: float | None = None
    recording: bool = True
    cuda_memory_pool_sizes: Mapping[int, int] | None = None
    max_message_size: int = 0
    max_unread_size: int = MAX_UNREAD_SIZE
    audit_reads: bool = False
    simulated_gpus: int = 0
    clock: Clock | None = None
