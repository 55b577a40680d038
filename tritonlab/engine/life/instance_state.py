"""The state of a model instance; a table lists the legal moves."""

from __future__ import annotations

import enum
import threading


class InstanceState(enum.Enum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class InstanceEvent(enum.Enum):
    INITIALIZED = "initialized"
    DIED = "died"
    GAVE_UP = "gave up"
    TRY_AGAIN = "try again"
    STOP = "stop"


#: Pairs of state and event; any other pair is a defect of the server and raises.
TRANSITIONS = {
    (InstanceState.STARTING, InstanceEvent.INITIALIZED): InstanceState.READY,
    (InstanceState.STARTING, InstanceEvent.GAVE_UP): InstanceState.FAILED,
    (InstanceState.STARTING, InstanceEvent.STOP): InstanceState.STOPPED,
    (InstanceState.READY, InstanceEvent.DIED): InstanceState.RESTARTING,
    (InstanceState.READY, InstanceEvent.STOP): InstanceState.STOPPED,
    (InstanceState.RESTARTING, InstanceEvent.INITIALIZED): InstanceState.READY,
    (InstanceState.RESTARTING, InstanceEvent.GAVE_UP): InstanceState.FAILED,
    (InstanceState.RESTARTING, InstanceEvent.STOP): InstanceState.STOPPED,
    (InstanceState.FAILED, InstanceEvent.TRY_AGAIN): InstanceState.RESTARTING,
    (InstanceState.FAILED, InstanceEvent.STOP): InstanceState.STOPPED,
}


class InstanceLife:
    """The state of one instance. A thread that reads it and acts on it holds `lock` meanwhile."""

    def __init__(self) -> None:
        self.state = InstanceState.STARTING
        self.lock = threading.Lock()
        #: whether the instance was stopped, its last state
        self.stopped = False
        self._retired = False

    def advance(self, event: InstanceEvent) -> None:
        """Move to the next state after `event`; the caller holds the lock. Raises KeyError if the event is illegal."""
        self.state = TRANSITIONS[self.state, event]
        self.stopped = self.state is InstanceState.STOPPED

    def give_up(self) -> None:
        """Move to FAILED, because the instance will not start (again)."""
        with self.lock:
            if self.state in (InstanceState.STARTING, InstanceState.RESTARTING):
                self.advance(InstanceEvent.GAVE_UP)

    def try_again(self) -> bool:
        """Move to a new start after a pause. Returns False if the instance was stopped or is leaving."""
        with self.lock:
            if self.state is not InstanceState.FAILED or self._retired:
                return False
            self.advance(InstanceEvent.TRY_AGAIN)
            return True

    def retire(self) -> None:
        """Prevent a new start of the instance after a failed one."""
        with self.lock:
            self._retired = True
