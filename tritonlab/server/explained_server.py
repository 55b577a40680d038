"""This module has the method `why` of the core of a server."""

from __future__ import annotations

from ..core.clock import Clock
from ..core.failure_capsule import FailureBook
from .build import Parts
from .models.model_control import ModelControl
from .observe.requests_in_flight import survey
from .observe.why import Moment, Why, why


class ExplainedServer:
    """Says what a server waits for."""

    clock: Clock
    failures: FailureBook
    _control: ModelControl
    _parts: Parts

    def why(self, name: str = "") -> Why:
        """Returns what everything waits for, of one model or of all, and why the last loads failed. Blocks while the
        stubs on the way say what they are doing, a second each at most.
        """
        control, calls, now = self._control, self._parts.executor.calls(), self.clock.now()
        held = survey(control.running(), calls, now)
        models = [model for _, model in sorted(control.models.items())]
        return why(Moment(models, control.running(), control.loading(), held, calls, self.failures, now), name)
