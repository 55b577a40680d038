"""The in-kernel server, with the names of NVIDIA's in-process package `tritonserver`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from ...core.observe.log_settings import LogSettings
from ...core.observe.trace_settings import TraceSettings
from ...core.process_bound import ProcessBound
from ...core.unknown_option import UnknownOption
from ...ipc.processes.stub_log import LogRecord
from ...ipc.zygotes.remembered_imports import RememberedImports
from ..inference_server import EXIT_TIMEOUT, InferenceServer
from ..observe.chrome_trace import ChromeTrace
from ..observe.first_looks import OutputCheck, PlacementCheck, PrintCheck
from ..observe.idle_memory import MemoryUse
from ..observe.why import Why
from ..options import Options
from .model import Model

#: Seconds within which an unloaded model must end. Triton waits for ever.
UNLOAD_SECONDS = 10.0
#: Seconds for each instance to report its execution.
_STACK_SECONDS = 1.0


class Server(ProcessBound):
    """A Triton server in this process: every model instance is its own stub process, reached through shared memory.

    `model_repository`: one directory or several. Options are given as `Options(…)` or one by one, as `Server(directory,
    model_control_mode="explicit")`; `Options` lists them. Use it as a context manager, or call `stop`.

    Raises ModelLoadError if a model of the start fails to load, unless `exit_on_error` is False.
    """

    def __init__(
        self,
        model_repository: str | Path | Sequence[str | Path] = (),
        options: Options | None = None,
        **more: Any,
    ) -> None:
        UnknownOption.check("Server", more, Options.__dataclass_fields__)
        repositories = [model_repository] if isinstance(model_repository, (str, Path)) else list(model_repository)
        #: the core, for frontends, facades, load tests and tuning; the server itself has all that a program needs
        self.core = InferenceServer(repositories, replace(options or Options(), **more))
        #: the hooks, for listeners: `server.instruments.add(MyInstrument())`
        self.instruments = self.core.instruments
        #: connects `breakpoint()` of the models to its `desk`, where lines are typed
        self.debugger = self.core.debugger

    @property
    def repositories(self) -> list[Path]:
        """The directories from which models are loaded, in the order of the search."""
        return list(self.core.repository.repositories)

    def load(
        self,
        name: str,
        config: dict[str, Any] | str | None = None,
        files: dict[str, bytes] | None = None,
    ) -> Model:
        """Load or reload a model and wait until it is READY.

        An unchanged model is not loaded again; if only the instance groups have changed, equal instances continue.
        `config` (dict or JSON text) replaces config.pbtxt until a file of the model changes or it is unloaded; `files`
        (`{"file:1/model.py": b"…"}`) replace the whole directory and need `config`. An ensemble also loads its models.
        A failed reload keeps the running version. With `model_namespacing` the models of this name in all repositories
        are loaded.

        Raises ModelLoadError with the text for clients; `.reason`, `.exception` and `.log` have the cause.
        """
        self.core.control.load(name, config, files)
        return self.model(name)

    def unload(
        self,
        name: str | Model,
        unload_dependents: bool = False,
        wait: bool = True,
        timeout: float | None = UNLOAD_SECONDS,
    ) -> None:
        """Take a model out of service, and the ensembles that contain it; requests in flight end, then its `finalize`
        runs.

        `unload_dependents`: with an ensemble, also unload the models that were loaded only for it. `wait`: return when
        the unload is done. `timeout`: the limit in seconds, waited for or not; after it, or if the wait is interrupted,
        requests in flight fail and the stubs are killed. None is for ever, as for clients and in Triton; then an
        interrupt ends only the wait.
        """
        self.core.control.unload(name.name if isinstance(name, Model) else name, unload_dependents, wait, timeout)

    def register_model_repository(
        self, repository_path: str | Path, name_mapping: Mapping[str, str] | None = None
    ) -> None:
        """Add a directory to load models from. `name_mapping`: directory name -> the model's name, where they differ.

        Raises UnsupportedError outside the explicit mode, InvalidArgumentError, AlreadyExistsError.
        """
        self.core.register_model_repository(repository_path, name_mapping)

    def unregister_model_repository(self, repository_path: str | Path) -> None:
        """Remove a directory to load models from; its loaded models continue to serve. Raises UnsupportedError outside
        the explicit mode, InvalidArgumentError.
        """
        self.core.unregister_model_repository(repository_path)

    def poll_model_repository(self) -> None:
        """Look for changes in the repositories now, and load them in the background. Raises UnavailableError outside
        the poll mode.
        """
        self.core.poll_model_repository()

    def model(self, name: str, version: int = -1) -> Model:
        """Return a handle on a model, loaded or not; version -1 is the latest version that its policy serves."""
        return Model(self, name, version)

    def models(self, exclude_not_ready: bool = False) -> Mapping[tuple[str, int], Model]:
        """Return every version that was loaded or tried, or only the READY ones, by (name, version)."""
        found: dict[tuple[str, int], Model] = {}
        for model in self.core.models.known():
            for version in sorted({*model.versions, *(() if exclude_not_ready else model.not_ready)}):
                found[model.identifier, version] = self.model(model.identifier, version)
        return found

    def index(self, ready: bool = False) -> list[dict[str, str]]:
        """Return the repository index: `name` of each model, and `version`, `state` and `reason` of each version that
        was loaded or tried. `ready`: list READY versions only.
        """
        return self.core.index(ready)

    def metadata(self) -> dict[str, Any]:
        """Return `name`, `version` and `extensions`, as Triton's `/v2` does."""
        return self.core.server_metadata()

    def live(self) -> bool:
        """Return whether the server takes requests, which it does until it is stopped."""
        return self.core.live()

    def ready(self) -> bool:
        """Return whether every known version serves, or was unloaded on purpose (rule 5.11.9)."""
        return self.core.ready()

    def stop_loading(self, name: str) -> None:
        """End the running loads of a model, which raise ModelLoadError. Versions that serve are not affected."""
        self.core.control.stop_loading(name)

    def cancel(self, serial: int) -> bool:
        """Request the cancellation of a request in flight, by its `serial` in `requests()`; False if it has ended. The
        model decides about further responses (rule 3.10).
        """
        found = [held.request for held in self.core.requests() if held.request.serial == serial]
        for request in found:
            request.cancel()
        return bool(found)

    def draining(self, model: str | None = None, stacks: bool = False) -> list[dict[str, Any]]:
        """Return the versions out of service, by a reload or an unload, that have not ended, oldest first, with these
        facts:

        `model`, `version`, `since` (wall clock seconds), `ends_in` (seconds until it is killed, None: never), `awaits`
        (the reason of its wait, in words), `pids`. `stacks=True` adds the stacks of its threads, as in `Model.stacks`;
        this takes a moment.
        """
        now, endings = self.core.clock.now(), self.core.control.draining(model or "")
        return [
            {**ending.to_dict(now), **({"stacks": ending.stacks(_STACK_SECONDS)} if stacks else {})}
            for ending in endings
        ]

    def kill(self, name: str | Model, *, serving: bool = True) -> list[dict[str, Any]]:
        """End at once the versions of a model that are draining: their requests fail, their processes are killed.
        Without any, and with `serving`, kill the serving processes with requests in flight: these fail, and other
        processes take over. Returns the ended versions in the form of `draining`.
        """
        name = name.name if isinstance(name, Model) else name
        now, endings = self.core.clock.now(), self.core.control.draining(name)
        ended = [ending.to_dict(now) for ending in endings]
        self.core.control.kill(endings)
        return ended if ended or not serving else self.core.kill_serving(name)

    def prewarm(self, remembered: Path | None = None) -> None:
        """Start the processes that models are forked from, in the background, so that the first load is as quick as
        later ones.

        remembered: a file that keeps the models' imports from one server to the next, so that they are made in advance.
        """
        self.core.pool.prewarm(None if remembered is None else RememberedImports(remembered))

    # -- requests and state

    def why(self, name: str | None = None) -> Why:
        """Return, in sentences, the reasons why requests, instances, sequences and loads wait, of one model or all, and
        why the last load of a model failed, with line and fix.

        `.text()` has all of it, `.to_dict()` the same for programs.
        """
        return self.core.why(name or "")

    def requests(self, model: str | None = None) -> list[dict[str, Any]]:
        """Return the requests in flight, of one model or all, oldest first, each with these facts:

        `model`, `version`, `request_id`, `serial` (unique), `state` (`pending` in a queue; `executing`; `open`: its
        execute call has returned and its response sender must end it), `age` and `waited` (seconds since its arrival,
        and since its last event), `cancelled` (whether that was requested), `instance` and `pid` (empty and None while
        pending), `called_by` (the instance whose model made it, empty for a client's request).
        """
        return [held.to_dict() for held in self.core.requests(model or "")]

    def loading(self, model: str | None = None) -> list[dict[str, Any]]:
        """Return the versions that are being loaded, each with these facts: `model`, `version`, `age` (seconds since
        the load began), and `imports_again` (the modules that it must import itself, and why; empty if they were ready,
        which is quicker).
        """
        now = self.core.clock.now()
        return [
            {
                "model": version.name,
                "version": version.version,
                "age": max(now - version.load_started, 0) / 1e9,
                "imports_again": version.loading.imports_again(),
            }
            for version in self.core.control.loading(model or "")
        ]

    def logs(self, model: str | None = None) -> list[LogRecord]:
        """Return what models printed and logged, oldest first."""
        return self.core.log.records(model)

    def statistics(self, model: str = "") -> dict[str, Any]:
        """Return the statistics of all versions that serve, of one model or all, as Triton's `/v2/models/stats` does;
        times are nanoseconds.
        """
        return self.core.statistics(model)

    def metrics(self, model: str = "") -> str:
        """Return Prometheus text, as on Triton's /metrics. Of one model: the samples that name it in their labels, and
        its code's custom metrics.
        """
        return self.core.metrics_text(model)

    def gpus(self) -> list[dict[str, Any]]:
        """Return the GPUs that models may be placed on: `ordinal`, `uuid`, `name`, `total_bytes`, `simulated`."""
        return [gpu._asdict() for gpu in self.core.gpus.all]

    def memory(self) -> MemoryUse:
        """Return the memory of this process and of the models' processes in bytes, and the bytes returned the last time
        the server was idle.
        """
        return self.core.idle_memory.use()

    def check_outputs(self) -> None:
        """Check the first responses of every version that becomes READY from now on: `logs()` warns of outputs that
        differ from the config, which Triton passes on silently.
        """
        core = self.core
        core.instruments.only(OutputCheck, lambda: OutputCheck(core.instruments, core.find, core.log))

    def check_prints(self) -> None:
        """Warn in `logs()`, from now on, of printed lines that Triton's stubs could not print (rule 2.1.8)."""
        self.core.instruments.only(PrintCheck, lambda: PrintCheck(self.core.log))

    def check_placement(self) -> None:
        """Check where the instances of every version that becomes READY from now on hold GPU memory: `logs()` warns of
        instances that use another device than their own.
        """
        core = self.core
        core.instruments.only(PlacementCheck, lambda: PlacementCheck(core.instruments, core.find, core.log, core.gpus))

    def trace(self, path: str | Path | None = None) -> ChromeTrace:
        """Collect all events while it is open, and write them to `path` as a file for Perfetto and chrome://tracing:
        `with server.trace("trace.json"): …`. Triton's own trace file is `trace_settings`.
        """
        return ChromeTrace(self.core.instruments, self.core.clock, path)

    @property
    def trace_settings(self) -> TraceSettings:
        """The settings of Triton's trace file and its requests: `get` and `update`, and `start` and `stop` for settings
        that clients cannot change (rule 5.14.1).
        """
        return self.core.trace_settings

    @property
    def log_settings(self) -> LogSettings:
        """The settings of the log of `tritonlab serve`; `logs()` has all records (rule 5.14.3)."""
        return self.core.log_settings

    # -- its end

    def stop(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Unload all models and end all processes. Safe to call twice.

        Requests that still execute after `timeout` seconds, or when the caller is interrupted, fail.
        """
        self.core.stop(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        models = ", ".join(f"{e['name']} {e.get('state', 'not loaded')}" for e in self.index())
        return f"<Server [{models or 'no models'}]>"
