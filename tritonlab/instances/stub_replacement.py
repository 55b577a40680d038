"""What follows the death of an instance's stub: its requests fail with the reason, and the instance starts anew."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.infer_request import InferenceRequest
from ..core.status import TritonError
from .instance_plan import InstanceEvents
from .model_stub import ModelStub
from .payload import Payload

if TYPE_CHECKING:
    from .model_instance import ModelInstance

#: Deaths in a row without a request in execution after which an instance is given up: its own threads kill it.
_IDLE_DEATHS = 3


class StubReplacement:
    """Of one instance. `count`: how often it has started anew. `last_death`: why its last stub ended.

    Guarantees: a payload that comes while the stub is replaced (`hold`) is executed by the new one, or fails.
    """

    def __init__(self, instance: ModelInstance, events: InstanceEvents) -> None:
        self.count = 0
        self.last_death = ""
        self._instance = instance
        self._events = events
        self._lock = threading.Lock()  # guards _waiting
        self._waiting: Payload | None = None
        self._thread: threading.Thread | None = None
        self._idle_deaths = 0
        self._batches = 0  # that the instance had had when its stub died last

    def begin(
        self, stub: ModelStub, payload: Payload | None, requests: Sequence[InferenceRequest], batches: int
    ) -> None:
        """The stub is dead: `payload` was in execution, `requests` had not got their final responses; `batches` had
        been sent to it and those before."""
        if requests:
            self._idle_deaths = 0
        else:
            self._idle_deaths = self._idle_deaths + 1 if batches == self._batches else 1
        self._batches = batches
        name = f"restart {self._instance.plan.name}"
        self._thread = threading.Thread(target=self._run, args=(stub, payload, requests), name=name, daemon=True)
        self._thread.start()

    def hold(self, payload: Payload) -> None:
        """The scheduler chose the instance while its stub was dying."""
        with self._lock:
            self._waiting = payload

    def end(self, error: TritonError) -> None:
        """After the instance was stopped: nothing starts a stub any more, and nobody waits for one."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._refuse_waiting(error)

    def _run(self, stub: ModelStub, payload: Payload | None, requests: Sequence[InferenceRequest]) -> None:
        instance = self._instance
        # whoever takes the instance from the scheduler gives it back: here, unless a payload is on its way to `execute`
        returns = self._events.away(instance) or payload is not None
        error = stub.unhealthy()
        self.last_death = error.reason
        _say(stub, f"{error.message} {error.reason}")
        instance.bury(payload, requests, error)
        name = instance.plan.name
        if self._idle_deaths >= _IDLE_DEATHS:
            instance.give_up()
            _say(stub, f"'{name}' died {_IDLE_DEATHS} times without a request and is not started again.")
            self._give_up(error)
            return
        try:
            instance.start()
        except TritonError as failure:
            if not instance.stopped:
                _say(stub, f"'{name}' could not be started again: {failure.message}")
            self._give_up(error)
            return
        self.count += 1
        waiting = self._take_waiting()
        if waiting is not None:
            instance.execute(waiting)
        elif returns:
            self._events.idle(instance)

    def _give_up(self, error: TritonError) -> None:
        self._refuse_waiting(error)
        self._events.gone(self._instance)

    def _take_waiting(self) -> Payload | None:
        with self._lock:
            waiting, self._waiting = self._waiting, None
        return waiting

    def _refuse_waiting(self, error: TritonError) -> None:
        waiting = self._take_waiting()
        if waiting is not None:
            self._instance.refuse(waiting, error)


def _say(stub: ModelStub, text: str) -> None:
    stub.log("server", "ERROR", text)
