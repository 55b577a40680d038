"""`ObservedServer` is the part of `Server` that tells what goes on and went on in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.log_settings import LogSettings
from ...core.trace_settings import TraceSettings
from ...ipc.stub_log import LogRecord
from ..inference_server import InferenceServer
from ..observe.chrome_trace import ChromeTrace
from ..observe.idle_memory import MemoryUse
from ..observe.output_check import OutputCheck
from ..observe.placement_check import PlacementCheck
from ..observe.print_check import PrintCheck
from ..observe.why import Why


class ObservedServer:
    """Tells of a server's requests, statistics, metrics, log and memory, and traces it."""

    _core: InferenceServer

    def why(self, name: str | None = None) -> Why:
        """Returns, in sentences, what every request, instance, sequence and load waits for, of one model or of all, and
        why the last load of a model failed, with line and fix.

        `.text()` has all of it, `.to_dict()` the same for programs.
        """
        return self._core.why(name or "")

    def requests(self) -> list[dict[str, Any]]:
        """Returns the requests in flight, oldest first, each with these facts:

        `model`, `version`, `request_id`, `serial` (unique), `state` (`pending` in a queue; `executing`; `open`: its
        execute call has returned and its response sender must end it), `age` and `waited` (seconds since it came, and
        since something happened to it last), `instance` and `pid` (empty and None while pending), `called_by` (the
        instance whose model made it, empty for a client's request).
        """
        return [held.to_dict() for held in self._core.requests()]

    def loading(self, model: str | None = None) -> list[dict[str, Any]]:
        """Returns the versions that are being loaded, each with these facts: `model`, `version`, `age` (seconds since
        the load began), and `imports_anew` (the modules that it has to import itself, and why; empty if they were
        ready, which is quicker).
        """
        now = self._core.clock.now()
        return [
            {
                "model": version.name,
                "version": version.version,
                "age": max(now - version.load_started, 0) / 1e9,
                "imports_anew": version.loading.imports_anew(),
            }
            for version in self._core.loading(model or "")
        ]

    def logs(self, model: str | None = None) -> list[LogRecord]:
        """Returns what models printed and logged, oldest first."""
        return self._core.log.records(model)

    def statistics(self, model: str = "") -> dict[str, Any]:
        """Returns the statistics of all versions that serve, of one model or of all, as Triton's `/v2/models/stats`
        tells them; times are nanoseconds.
        """
        return self._core.facts.statistics(model)

    def metrics(self, model: str = "") -> str:
        """Returns Prometheus text, as on Triton's /metrics. Of one model: the samples that name it in their labels, and
        the custom ones that its code made.
        """
        return self._core.facts.metrics_text(model)

    def gpus(self) -> list[dict[str, Any]]:
        """Returns the GPUs that models may be placed on: `ordinal`, `uuid`, `name`, `total_bytes`, `simulated`."""
        return [gpu._asdict() for gpu in self._core.gpus.all]

    def memory(self) -> MemoryUse:
        """Returns the bytes that this process and those of the models take in memory, and what was given back the last
        time the server was idle.
        """
        return self._core.memory()

    def check_outputs(self) -> None:
        """Checks the first responses of every version that becomes READY from now on: `logs()` warns of outputs that
        differ from the config, which Triton passes on without a word.
        """
        core = self._core
        if not any(isinstance(one, OutputCheck) for one in core.instruments):
            core.instruments.add(OutputCheck(core.instruments, core.find, core.log))

    def check_prints(self) -> None:
        """Warn in `logs()`, from now on, of printed lines that Triton's stubs could not print (rule 2.1.8)."""
        core = self._core
        if not any(isinstance(one, PrintCheck) for one in core.instruments):
            core.instruments.add(PrintCheck(core.log))

    def check_placement(self) -> None:
        """Looks where the instances of every version that becomes READY from now on hold GPU memory: `logs()` warns of
        those that use another device than they were told.
        """
        core = self._core
        if not any(isinstance(one, PlacementCheck) for one in core.instruments):
            core.instruments.add(PlacementCheck(core.instruments, core.find, core.gpus, core.log))

    def trace(self, path: str | Path | None = None) -> ChromeTrace:
        """Collects everything that happens while it is open, and writes it to `path` as a file for Perfetto and
        chrome://tracing: `with server.trace("trace.json"): …`. Triton's own trace file is `trace_settings`."""
        return ChromeTrace(self._core.instruments, self._core.clock, path)

    @property
    def trace_settings(self) -> TraceSettings:
        """Returns the settings that choose which requests leave a trace in Triton's trace file: `get` and `update`, and
        `start` and `stop` for what no client may set (rule 5.14.1).
        """
        return self._core.trace_settings

    @property
    def log_settings(self) -> LogSettings:
        """Returns the settings of what `tritonlab serve` writes of the log; `logs()` has everything (rule 5.14.3)."""
        return self._core.log_settings
