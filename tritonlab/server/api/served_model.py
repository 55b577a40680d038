"""`ServedModel` tells what a model of a server is and how it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from ...core.instrument import Instruments
from ...core.model_config import print_pbtxt, to_dict
from ...core.status import TritonError
from ...ipc.stub_log import LogRecord
from ...ipc.visible_gpus import VisibleGpus
from ..inference_server import InferenceServer
from ..models.model_lifecycle import ModelVersion


class Host(Protocol):
    """Names the part of `Server` that its models need."""

    #: (model, input) pairs whose cast of lists was warned of
    casts: set[tuple[str, str]]

    @property
    def core(self) -> InferenceServer: ...

    @property
    def instruments(self) -> Instruments: ...

    def model(self, name: str, version: int = -1) -> ServedModel: ...

    def logs(self, model: str | None = None) -> list[LogRecord]: ...

    def metrics(self, model: str = "") -> str: ...


class ServedModel:
    """Knows one model of a server by its name, and looks it up at each use, so it follows reloads."""

    def __init__(self, server: Host, name: str, version: int = -1) -> None:
        self._server = server
        self._core = server.core
        self.name = name
        self.version = version

    def _found(self) -> ModelVersion:
        return self._core.find(self.name, self.version)

    def _version(self) -> str:
        """Returns the version as clients write it."""
        return "" if self.version == -1 else str(self.version)

    def versions(self) -> list[ModelVersion]:
        """Returns the versions that serve, for views of what they do."""
        model = self._core.model(self.name)
        return list(model.versions.values()) if model is not None else []

    @property
    def server_gpus(self) -> VisibleGpus:
        """Returns the GPUs that its server may use."""
        return self._core.gpus

    @property
    def server(self) -> Host:
        return self._server

    @property
    def state(self) -> str:
        """Returns LOADING, READY, UNLOADING, UNAVAILABLE, or UNKNOWN for a model that was never loaded."""
        return self._state()[0]

    @property
    def reason(self) -> str:
        """Returns why the model is UNAVAILABLE; empty if nothing is wrong."""
        return self._state()[1]

    def _state(self) -> tuple[str, str]:
        model = self._core.model(self.name)
        if model is None:
            return "UNKNOWN", ""
        number = self.version
        if number == -1:
            number = max([*model.versions, *model.ended], default=-1) if not model.versions else max(model.versions)
        if number in model.versions:
            return model.versions[number].state.value, model.versions[number].reason
        state, reason = model.ended.get(number, (None, ""))
        return (state.value if state is not None else "UNKNOWN"), reason

    @property
    def directory(self) -> Path:
        """Returns the model directory that the running version was read from."""
        return self._found().files.directory

    @property
    def load_ns(self) -> int:
        """Returns how many nanoseconds it took to load the running version."""
        return self._found().load_ns

    def ready(self) -> bool:
        """Tells whether the model can answer now: it is READY, its stubs are alive, and its own `is_ready()` agrees."""
        try:
            return self._found().ready()
        except TritonError:
            return False

    def metadata(self) -> dict[str, Any]:
        """Returns the name, READY versions, platform, inputs and outputs, with the shapes that a client sends (rule
        6.1.2).
        """
        return self._core.facts.model_metadata(self.name, self._version())

    def config(self) -> dict[str, Any]:
        """Returns the complete configuration in the JSON form that Triton's config endpoint prints (rule 5.2)."""
        return to_dict(self._found().config)

    def config_pbtxt(self) -> str:
        """Returns the complete configuration as the text of a config.pbtxt."""
        return print_pbtxt(self._found().config)

    def statistics(self) -> dict[str, Any]:
        """Returns how often the model ran and how long its requests took, as Triton's statistics endpoint tells it;
        times are nanoseconds."""
        return self._core.facts.statistics(self.name, self._version())

    def instances(self) -> list[dict[str, Any]]:
        """Returns each instance's name, kind, device, process id, state, restarts and the reason of its last death.

        `simulated`: whether the server's GPUs are simulated. `gpu_memory`: the bytes that its process holds of each
        GPU, as far as they can be seen. If an instance does not run, `failure` says why, and `next_try` in how many
        seconds it is started again. `imports_anew` says which modules it had to import itself at its start, and why;
        empty if it had them already.
        """
        now = self._core.clock.now()
        return [
            {
                "name": instance.plan.name,
                "kind": instance.plan.kind,
                "device_id": instance.plan.device_id,
                "simulated": self._core.gpus.simulated,
                "gpu_memory": self._core.gpus.held(instance.pid) if instance.pid else {},
                "pid": instance.pid,
                "state": instance.state.value,
                "restarts": instance.replacement.count,
                "last_death": instance.replacement.last_death,
                "failure": instance.replacement.failure,
                "imports_anew": instance.stub.process.imports_anew if instance.stub is not None else "",
                "next_try": _seconds_until(instance.replacement.next_try, now),
            }
            for instance in self._found().instances
        ]

    def called(self) -> list[str]:
        """Returns the names of the models that it has called (BLS) since it was loaded, whether they were there or not,
        in alphabetical order.
        """
        return sorted(set().union(*(instance.called for instance in self._found().instances)))

    def logs(self, request: str | int | None = None) -> list[LogRecord]:
        """Returns what the model printed, logged and raised, oldest first; with `request`, an id or a serial number,
        the lines of the execution or stream of that request.
        """
        records = self._server.logs(self.name)
        return records if request is None else [record for record in records if record.is_of(str(request))]

    def stacks(self, timeout: float = 2.0) -> dict[str, str]:
        """Returns by instance name the Python stacks of what each instance's threads and coroutines are doing now.

        The text is empty for an instance that did not answer within `timeout` seconds: it is being restarted, or C code
        holds its interpreter.
        """
        stubs = {instance.name: instance.stub for instance in self._found().instances}
        return {name: stub.dump_stacks(timeout) if stub is not None else "" for name, stub in stubs.items()}

    def expected_shape(self, name: str) -> str:
        """Returns the shape that a client must send for an input, with the batch dimension; -1 is any size."""
        return self._found().rules.expected_shape(name)

    def to_dict(self) -> dict[str, Any]:
        """Returns the name, version, state, reason and, while it serves, `metadata()`, as JSON values."""
        state, reason = self._state()
        metadata = self.metadata() if state == "READY" else {}
        return {**metadata, "name": self.name, "version": self._version() or None, "state": state, "reason": reason}

    def __repr__(self) -> str:
        version = "" if self.version == -1 else f"/{self.version}"
        return f"<Model {self.name}{version} [{self.state}]>"


def _seconds_until(when: int | None, now: int) -> float | None:
    return max(when - now, 0) / 1e9 if when is not None else None
