"""These functions type to a debugger in a model's process; `debugger.desk` is where somebody sits."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.status import ModelError, NotFoundError, UnsupportedError
from ...instances.debug_session import DebugSession
from ...instances.debugger import Debugger
from ...instances.model_instance import ModelInstance
from ...instances.model_stub import ModelStub
from ...instances.response_factory import failure_of

#: Seconds in which each stub has to say whether it keeps an exception.
_SECONDS = 2.0
#: Seconds that a stub has to start a debugger.
_BEGIN_SECONDS = 10.0
#: Seconds that debugpy has to start its adapter, another process.
_ATTACH_SECONDS = 30.0
#: Seconds in which a model that goes on may pause again for the same person.
_SOON = 0.2


def follow_pauses(debugger: Debugger, model: str | None) -> None:
    """Types to a paused model until it goes on; without a name, to the one that paused first. Raises NotFoundError if
    none is paused."""
    paused = [session for session in debugger.sessions(model) if session.live]
    if not paused:
        which = f"model '{model}' is not" if model is not None else "no model is"
        raise NotFoundError(f"{which} paused; call breakpoint() in its cell and send it a request")
    session: DebugSession | None = paused[0]
    while session is not None:
        debugger.follow(session)
        again = session.instance.debugged
        debugger.wait_for(lambda again=again: bool(again.place), _SOON)  # type: ignore[misc]
        session = next((each for each in again if each.live), None)


def look_at_last_error(debugger: Debugger, what: str, instances: Sequence[ModelInstance]) -> None:
    """Types to a debugger that looks at the latest exception that these instances keep. Raises NotFoundError if they
    keep none."""
    found = [(age, instance) for instance in instances if (age := _last_error_age(instance, begin=False)) is not None]
    if not found:
        kept = f"for {debugger.keeps / 60:g} minutes" if debugger.keeps else "only with Options(postmortem_seconds=…)"
        raise NotFoundError(
            f"no exception of '{what}' is alive: the last one of each instance is kept {kept}, until its next load; "
            "model.failures has the variables of earlier ones"
        )
    _, instance = min(found, key=lambda each: each[0])
    sessions = instance.debugged
    sessions.looked = None
    _last_error_age(instance, begin=True)
    debugger.wait_for(lambda: sessions.looked is not None, _BEGIN_SECONDS)
    if sessions.looked is not None:
        debugger.follow(sessions.looked)


@dataclass(frozen=True)
class EditorAttach:
    """Says how VS Code attaches to the processes of a model: `to_dict()` is a launch.json. `ports` maps instances to
    ports, `local` is the author's directory of the model's code, `remote` the one that serves."""

    ports: dict[str, int]
    local: str
    remote: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": "0.2.0",
            "configurations": [
                {
                    "name": f"tritonlab: {name}",
                    "type": "debugpy",
                    "request": "attach",
                    "connect": {"host": "127.0.0.1", "port": port},
                    "pathMappings": [{"localRoot": self.local, "remoteRoot": self.remote}],
                    "justMyCode": False,
                }
                for name, port in self.ports.items()
            ],
        }

    def __repr__(self) -> str:
        return (
            f"debugpy listens. Put this into .vscode/launch.json, open {os.path.join(self.local, 'model.py')}, set a "
            "breakpoint there and start the configuration; in an editor on another machine localRoot is where it has "
            "that file. Whoever reaches the port can run code in the model's process, until its next load.\n"
            + json.dumps(self.to_dict(), indent=2)
        )


def attach_editor(instances: Sequence[ModelInstance], local: str) -> EditorAttach:
    """Has debugpy listen in each instance. Raises UnsupportedError if their Python has none."""
    ports, remote = {}, ""
    for instance in instances:
        source = instance.plan.source
        remote = os.path.dirname(source.path)
        if (stub := instance.stub) is None:
            continue
        try:
            ports[instance.name] = _editor_port(stub)
        except ModelError as error:
            if error.exception is None or "debugpy" not in error.exception.text:
                raise
            python = source.interpreter.executable
            raise UnsupportedError(
                f"{python}, which runs '{instance.name}', has no debugpy: pip install it there"
            ) from None
    return EditorAttach(ports, local or remote, remote)


def _last_error_age(instance: ModelInstance, *, begin: bool) -> float | None:
    """Returns how many seconds ago `execute` raised the exception that the instance's stub keeps, None if it keeps
    none; with `begin` a debugger looks at it."""
    if (stub := instance.stub) is None:
        return None
    monitor = stub.process.monitor
    answer = monitor.postmortem(begin)
    if not monitor.await_answer(answer, _SECONDS) or answer.lost or answer.failure:
        return None
    return float(answer.value) if answer.value is not None else None


def _editor_port(stub: ModelStub) -> int:
    """Returns the port on which debugpy listens in the stub. Raises ModelError if it cannot."""
    monitor = stub.process.monitor
    answer = monitor.attach()
    if not monitor.await_answer(answer, _ATTACH_SECONDS) or answer.lost:
        raise ModelError(f"'{stub.instance}' did not let a debugger listen within {_ATTACH_SECONDS:g} s")
    if answer.failure is not None:
        raise failure_of(answer.failure, ())
    return int(answer.value)
