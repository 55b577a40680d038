"""Debuggers in a model's process, driven from here; lines are typed at `debugger.desk`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core.status import ModelError, NotFoundError, UnsupportedError
from ...engine.debugging.debug_session import DebugSession
from ...engine.debugging.debugger import Debugger
from ...engine.execution.response_factory import failure_of
from ...engine.life.model_instance import ModelInstance
from ...engine.life.model_stub import ModelStub
from ...ipc.processes.editor_relay import EditorRelay

#: Seconds for each stub to report whether it keeps an exception.
_SECONDS = 2.0
#: Seconds for a stub to start a debugger.
_BEGIN_SECONDS = 10.0
#: Seconds for a stub to import debugpy and connect it.
_ATTACH_SECONDS = 30.0
#: Seconds in which a model that continues may pause again for the same person.
_SOON = 0.2


def follow_pauses(debugger: Debugger, model: str | None) -> None:
    """Type to a paused model until it continues; without a name, to the model that paused first. Raises NotFoundError
    if none is paused.
    """
    paused = [session for session in debugger.sessions(model) if session.live]
    if not paused:
        subject = f"model '{model}' is not" if model is not None else "no model is"
        raise NotFoundError(f"{subject} paused; call breakpoint() in its cell and send it a request")
    session: DebugSession | None = paused[0]
    while session is not None:
        debugger.follow(session)
        again = session.sessions
        debugger.wait_for(lambda again=again: bool(again.place), _SOON)  # type: ignore[misc]
        session = next((each for each in again if each.live), None)


def look_at_last_error(debugger: Debugger, what: str, instances: Sequence[ModelInstance]) -> None:
    """Type to a debugger on the latest exception that these instances keep. Raises NotFoundError if they keep none."""
    found = [(age, instance) for instance in instances if (age := _last_error_age(instance, begin=False)) is not None]
    if not found:
        span = f"for {debugger.keeps / 60:g} minutes" if debugger.keeps else "only with Options(postmortem_seconds=…)"
        raise NotFoundError(
            f"no exception of '{what}' is alive: the last one of each instance is kept {span}, until its next load; "
            "model.failures has the variables of earlier ones"
        )
    _, instance = min(found, key=lambda each: each[0])
    sessions = instance.debugged
    sessions.looked = None
    _last_error_age(instance, begin=True)
    debugger.wait_for(lambda: sessions.looked is not None, _BEGIN_SECONDS)
    if sessions.looked is not None:
        debugger.follow(sessions.looked)


class EditorAdapter(NamedTuple):
    """The debug adapter of one process of a model: the file that an editor starts."""

    pid: int
    path: str


@dataclass(frozen=True)
class EditorAttach:
    """The configuration by which VS Code attaches to the processes of a model: `to_dict()` is a launch.json. `adapters`
    maps instances to the file that the editor starts, `local` is the author's directory of the model's code, `remote`
    the served one, `file` the name of the source in both.
    """

    adapters: dict[str, EditorAdapter]
    local: str
    remote: str
    file: str = "model.py"

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": "0.2.0",
            "configurations": [
                {
                    "name": f"tritonlab: {name}",
                    "type": "debugpy",
                    "request": "attach",
                    "processId": adapter.pid,
                    "debugAdapterPath": adapter.path,
                    "pathMappings": [{"localRoot": self.local, "remoteRoot": self.remote}],
                    "justMyCode": False,
                }
                for name, adapter in self.adapters.items()
            ],
        }

    def __repr__(self) -> str:
        return (
            f"debugpy waits. Put this into .vscode/launch.json, open {os.path.join(self.local, self.file)}, set a "
            "breakpoint there and start the configuration, as this user and on this machine (VS Code: Remote - SSH); "
            "nobody else can attach. Other editors start debugAdapterPath with Python, as a debug adapter on its "
            "standard input and output. It ends with the model's next load.\n" + json.dumps(self.to_dict(), indent=2)
        )


def attach_editor(instances: Sequence[ModelInstance], local: str) -> EditorAttach:
    """Let editors attach to each instance. Raises UnsupportedError if their Python has no debugpy."""
    adapters, remote, file = {}, "", ""
    for instance in instances:
        source = instance.plan.source
        remote, file = os.path.split(source.path)
        if (stub := instance.stub) is None:
            continue
        try:
            adapters[instance.name] = EditorAdapter(stub.process.pid, str(_editor_relay(stub).adapter))
        except ModelError as error:
            if error.exception is None or "debugpy" not in error.exception.text:
                raise
            python = source.interpreter.executable
            raise UnsupportedError(
                f"{python}, which runs '{instance.name}', has no debugpy: pip install it there"
            ) from None
    return EditorAttach(adapters, local or remote, remote, file)


def _last_error_age(instance: ModelInstance, *, begin: bool) -> float | None:
    """Return the age in seconds of the exception of `execute` that the instance's stub keeps, None without one; `begin`
    starts a debugger on it.
    """
    if (stub := instance.stub) is None:
        return None
    monitor = stub.process.monitor
    answer = monitor.postmortem(begin)
    if not monitor.await_answer(answer, _SECONDS) or answer.lost or answer.failure:
        return None
    return float(answer.value) if answer.value is not None else None


def _editor_relay(stub: ModelStub) -> EditorRelay:
    """Return the relay from editors to the debugger in the stub. Raises ModelError if it cannot be made."""
    monitor = stub.process.monitor
    if (relay := monitor.editor_relay) is not None:
        return relay
    relay = EditorRelay()
    answer = monitor.attach(relay.port, relay.token)
    if not monitor.await_answer(answer, _ATTACH_SECONDS) and not answer.lost:
        # its port stays taken: no other process may wait there for a debugger that connects late
        monitor.editor_relay = relay
        raise ModelError(f"'{stub.instance}' did not let a debugger connect within {_ATTACH_SECONDS:g} s")
    if answer.lost or answer.failure is not None:
        relay.close()
        if answer.failure is not None:
            raise failure_of(answer.failure, ())
        raise ModelError(f"'{stub.instance}' ended while a debugger was to connect")
    monitor.editor_relay = relay
    return relay
