"""The in-kernel server, with the names of NVIDIA's in-process package `tritonserver`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
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

#: Seconds within which a model that is unloaded has to end. Triton waits for ever.
UNLOAD_SECONDS = 10.0
#: Seconds within which each instance has to say what it executes.
_STACK_SECONDS = 1.0


class Server(ProcessBound):
    """A Triton server in this process: every model instance is a stub process of its own, reached through shared
    memory.

    `model_repository`: one directory or several. Options are given as `Options(…)` or one by one, as `Server(directory,
    model_control_mode="explicit")`; `Options` lists them. Use it as a context manager, or call `stop`.

    Raises ModelLoadError if a model that is to be loaded at the start fails, unless `exit_on_error` is False.
    """

    def __init__(
        self,
        model_repository: str | Path | Sequence[str | Path] = (),
        options: Options | None = None,
        **more: Any,
    ) -> None:
        UnknownOption.check("Server", more, Options.__dataclass_fields__)
        repositories = [model_repository] if isinstance(model_repository, (str, Path)) else list(model_repository)
        #: the core, for what is built on it: frontends, facades, load tests and tuning; a program finds all that it
        #: needs on the server itself
        self.core = InferenceServer(repositories, replace(options or Options(), **more))
        #: the hooks, to which listeners are added: `server.instruments.add(MyInstrument())`
        self.instruments = self.core.instruments
        #: brings `breakpoint()` of the models to its `desk`, where somebody types the lines
        self.debugger = self.core.debugger

    @property
    def repositories(self) -> list[Path]:
        """The directories that models are loaded from, in the order in which they are searched."""
        return list(self.core.repository.repositories)

    def load(
        self,
        name: str,
        config: dict[str, Any] | str | None = None,
        files: dict[str, bytes] | None = None,
    ) -> Model:
        """Load or reload a model and wait until it is READY.

        Nothing happens if nothing has changed; if only the instance groups have changed, equal instances go on.
        `config` (dict or JSON text) replaces config.pbtxt until a file of the model changes or it is unloaded; `files`
        (`{"file:1/model.py": b"…"}`) replace the whole directory and need `config`. An ensemble brings its models. A
        reload that fails leaves the running version as it is. With `model_namespacing` the call loads the models of
        this name of all repositories.

        Raises ModelLoadError with the text that a client would get; `.reason`, `.exception` and `.log` say why.
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

        `unload_dependents`: with an ensemble, also unload the models that were loaded for it alone. `wait`: return only
        when that is done. `timeout`: the seconds that it may take, waited for or not; after them, or if the waiting is
        interrupted, requests in flight fail and the stubs are killed. None is for ever, as for clients and in Triton;
        then an interrupt ends only the waiting.
        """
        self.core.control.unload(name.name if isinstance(name, Model) else name, unload_dependents, wait, timeout)

    def register_model_repository(
        self, repository_path: str | Path, name_mapping: Mapping[str, str] | None = None
    ) -> None:
        """Add a directory that models can be loaded from. `name_mapping`: directory name -> the model's name, where
        they differ.

        Raises UnsupportedError outside the explicit mode, InvalidArgumentError, AlreadyExistsError.
        """
        self.core.register_model_repository(repository_path, name_mapping)

    def unregister_model_repository(self, repository_path: str | Path) -> None:
        """Remove a directory that models can be loaded from; its models that are loaded go on serving. Raises
        UnsupportedError outside the explicit mode, InvalidArgumentError.
        """
        self.core.unregister_model_repository(repository_path)

    def poll_model_repository(self) -> None:
        """Look for changes in the repositories now, and load what they ask for in the background. Raises
        UnavailableError outside the poll mode.
        """
        self.core.poll_model_repository()

    def model(self, name: str, version: int = -1) -> Model:
        """Return a handle on a model, loaded or not; version -1 is the latest that its policy serves."""
        return Model(self, name, version)

    def models(self, exclude_not_ready: bool = False) -> Mapping[tuple[str, int], Model]:
        """Return every version that was loaded or tried, or only those that are READY, by (name, version)."""
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
        """Return `name`, `version` and `extensions`, as Triton's `/v2` tells them."""
        return self.core.server_metadata()

    def live(self) -> bool:
        """Return whether the server takes requests: it does until it is stopped."""
        return self.core.live()

    def ready(self) -> bool:
        """Return whether every known version serves, or was unloaded on purpose (rule 5.11.9)."""
        return self.core.ready()

    def stop_loading(self, name: str) -> None:
        """End the loads of a model that go on: they raise ModelLoadError. Versions that serve are left alone."""
        self.core.control.stop_loading(name)

    def cancel(self, serial: int) -> bool:
        """Ask for the cancellation of a request in flight, by its `serial` in `requests()`; False if it has ended. The
        model decides what still comes (rule 3.10)."""
        found = [held.request for held in self.core.requests() if held.request.serial == serial]
        for request in found:
            request.cancel()
        return bool(found)

    def draining(self, model: str | None = None, stacks: bool = False) -> list[dict[str, Any]]:
        """Return the versions that a reload or an unload took out of service and that have not ended, oldest first,
        with these facts:

        `model`, `version`, `since` (wall clock seconds), `ends_in` (seconds until it is killed, None: never), `awaits`
        (what it waits for, in words), `pids`. `stacks=True` adds what its threads are doing, as `Model.stacks` tells
        it; that takes a moment.
        """
        now, endings = self.core.clock.now(), self.core.control.draining(model or "")
        return [
            {**ending.to_dict(now), **({"stacks": ending.stacks(_STACK_SECONDS)} if stacks else {})}
            for ending in endings
        ]

    def kill(self, name: str | Model, *, serving: bool = True) -> list[dict[str, Any]]:
        """End at once the versions of a model that are draining: their requests fail, their processes are killed. If
        there are none, and with `serving`, kill the processes that serve and have requests in flight: those fail, and
        other processes take over. Returns what was ended, as `draining` tells it.
        """
        name = name.name if isinstance(name, Model) else name
        now, endings = self.core.clock.now(), self.core.control.draining(name)
        ended = [ending.to_dict(now) for ending in endings]
        self.core.control.kill(endings)
        return ended if ended or not serving else self.core.kill_serving(name)

    def prewarm(self, remembered: Path | None = None) -> None:
        """Start in the background the processes that models are forked from, so that the first load is as quick as
        later ones.

        remembered: a file that keeps the models' imports from one server to the next, so that they are made in advance.
        """
        self.core.pool.prewarm(None if remembered is None else RememberedImports(remembered))

    # -- what goes on

    def why(self, name: str | None = None) -> Why:
        """Return, in sentences, what every request, instance, sequence and load waits for, of one model or of all, and
        why the last load of a model failed, with line and fix.

        `.text()` has all of it, `.to_dict()` the same for programs.
        """
        return self.core.why(name or "")

    def requests(self, model: str | None = None) -> list[dict[str, Any]]:
        """Return the requests in flight, of one model or all, oldest first, each with these facts:

        `model`, `version`, `request_id`, `serial` (unique), `state` (`pending` in a queue; `executing`; `open`: its
        execute call has returned and its response sender must end it), `age` and `waited` (seconds since it came, and
        since something happened to it last), `cancelled` (whether that was requested), `instance` and `pid` (empty
        and None while pending), `called_by` (the instance whose model made it, empty for a client's request).
        """
        return [held.to_dict() for held in self.core.requests(model or "")]

    def loading(self, model: str | None = None) -> list[dict[str, Any]]:
        """Return the versions that are being loaded, each with these facts: `model`, `version`, `age` (seconds since
        the load began), and `imports_again` (the modules that it has to import itself, and why; empty if they were
        ready, which is quicker).
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
        """Return the statistics of all versions that serve, of one model or of all, as Triton's `/v2/models/stats`
        tells them; times are nanoseconds.
        """
        return self.core.statistics(model)

    def metrics(self, model: str = "") -> str:
        """Return Prometheus text, as on Triton's /metrics. Of one model: the samples that name it in their labels, and
        the custom ones that its code made.
        """
        return self.core.metrics_text(model)

    def gpus(self) -> list[dict[str, Any]]:
        """Return the GPUs that models may be placed on: `ordinal`, `uuid`, `name`, `total_bytes`, `simulated`."""
        return [gpu._asdict() for gpu in self.core.gpus.all]

    def memory(self) -> MemoryUse:
        """Return the bytes that this process and those of the models take in memory, and what was given back the last
        time the server was idle.
        """
        return self.core.idle_memory.use()

    def check_outputs(self) -> None:
        """Check the first responses of every version that becomes READY from now on: `logs()` warns of outputs that
        differ from the config, which Triton passes on without a word.
        """
        core = self.core
        core.instruments.only(OutputCheck, lambda: OutputCheck(core.instruments, core.find, core.log))

    def check_prints(self) -> None:
        """Warn in `logs()`, from now on, of printed lines that Triton's stubs could not print (rule 2.1.8)."""
        self.core.instruments.only(PrintCheck, lambda: PrintCheck(self.core.log))

    def check_placement(self) -> None:
        """Look where the instances of every version that becomes READY from now on hold GPU memory: `logs()` warns of
        those that use another device than their own.
        """
        core = self.core
        core.instruments.only(PlacementCheck, lambda: PlacementCheck(core.instruments, core.find, core.log, core.gpus))

    def trace(self, path: str | Path | None = None) -> ChromeTrace:
        """Collect everything that happens while it is open, and write it to `path` as a file for Perfetto and
        chrome://tracing: `with server.trace("trace.json"): …`. Triton's own trace file is `trace_settings`."""
        return ChromeTrace(self.core.instruments, self.core.clock, path)

    @property
    def trace_settings(self) -> TraceSettings:
        """The settings that choose which requests leave a trace in Triton's trace file: `get` and `update`, and
        `start` and `stop` for what no client may set (rule 5.14.1).
        """
        return self.core.trace_settings

    @property
    def log_settings(self) -> LogSettings:
        """The settings of what `tritonlab serve` writes of the log; `logs()` has everything (rule 5.14.3)."""
        return self.core.log_settings

    # -- its end

    def stop(self, timeout: float = EXIT_TIMEOUT) -> None:
        """Unload all models and end all processes. Safe to call twice.

        Requests that still execute after `timeout` seconds, or when the caller is interrupted, fail.
        """
        self.core.stop(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        models = ", ".join(f"{e['name']} {e.get('state', 'not loaded')}" for e in self.index())
        return f"<Server [{models or 'no models'}]>"
