"""What a model instance is doing."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.infer_request import InferenceRequest
from .debug_session import DebugSessions
from .execution import StubExecutor
from .instance_plan import InstancePlan
from .instance_state import InstanceLife, InstanceState
from .model_stub import ModelStub
from .payload import Payload


class RunningInstance:
    """An instance's state, its stub, the requests that stub has, and what its end would wait for."""

    plan: InstancePlan
    debugged: DebugSessions
    _life: InstanceLife
    #: the executor of the current stub, or of the last one; None before the first
    _executor: StubExecutor | None

    @property
    def state(self) -> InstanceState:
        return self._life.state

    @property
    def stopped(self) -> bool:
        return self._life.stopped

    @property
    def name(self) -> str:
        return self.plan.label

    @property
    def stub(self) -> ModelStub | None:
        """The current stub, or the last one; None before the first."""
        return self._executor.stub if self._executor is not None else None

    @property
    def pid(self) -> int | None:
        return self._executor.stub.process.pid if self._executor is not None else None

    @property
    def inflight(self) -> Mapping[int, InferenceRequest]:
        """The requests that may still get responses, by handle."""
        return self._executor.inflight if self._executor is not None else {}

    @property
    def payload(self) -> Payload | None:
        """The payload that is executed now, None if there is none."""
        return self._executor.payload if self._executor is not None else None

    @property
    def batch_id(self) -> int:
        """The number of the running `execute` call, 0 if there is none."""
        return self._executor.batch_id if self._executor is not None else 0

    def executes(self, request: InferenceRequest) -> bool:
        """Return whether the running `execute` call has the request and has not answered it."""
        return self._executor is not None and self._executor.executes(request)

    def awaited(self) -> str:
        """Return a text for people: what the end of the instance waits for."""
        stub, name, count = self.stub, self.name, len(self.inflight)
        if count:
            return f"{count} unanswered request{'s' * (count > 1)} of '{name}' (pid {self.pid}){self.debugged.words}"
        if self.stopped:
            return f"the finalize of '{name}' (pid {self.pid})" if stub is not None and not stub.link.lost else ""
        return f"the start of '{name}' (pid {self.pid})" if self.state is InstanceState.RESTARTING else ""

    def __repr__(self) -> str:
        return (
            f"<ModelInstance {self.plan.name} [{self.state.value} | {len(self.inflight)} in flight | pid {self.pid}]>"
        )
