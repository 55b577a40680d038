"""The life of a model instance, as a table."""

from __future__ import annotations

import enum


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


#: Any pair that is not here is a defect of ours and raises.
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
