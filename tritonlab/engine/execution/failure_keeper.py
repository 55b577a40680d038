"""The records of failures of the author's code, kept when a stub reports one or dies of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...core.clock import Clock
from ...core.inference.infer_request import InferenceRequest
from ...core.observe.failure_capsule import FailureBook, FailureCapsule, keep_requests
from ...core.status import ModelError, TritonError
from ...ipc.link.stub_link import Failed, Failure, FrameState
from ..life.model_stub import ModelStub
from .response_factory import failure_of


class FailureKeeper:
    """The failures of one stub on their way into the server's book. `inflight` are its requests; `batch_id` returns the
    number of the running execution, 0 if none runs.
    """

    def __init__(
        self,
        stub: ModelStub,
        inflight: Mapping[int, InferenceRequest],
        clock: Clock,
        book: FailureBook,
        batch_id: Callable[[], int],
    ) -> None:
        self._stub = stub
        self._inflight = inflight
        self._clock = clock
        self._since = clock.wall()
        self._book = book
        self._batch_id = batch_id
        stub.link.on_message(Failed, self._on_failed)

    def _on_failed(self, ident: int, failed: Failed) -> None:
        """Keep a failure. The error of its requests arrives with another message."""
        requests = [self._inflight[handle] for handle in failed.handles if handle in self._inflight]
        error = failure_of(failed.failure)
        self._add(
            failed.phase,
            text=error.message,
            error=error,
            frames=failed.frames,
            requests=requests,
            batch_id=self._batch_id(),
        )

    def keep_death(self, error: TritonError, requests: Sequence[InferenceRequest], batch_id: int) -> None:
        """Keep the record that the stub died of these requests, also in the error. Dead stubs report no variables."""
        if self._book.capacity and requests and isinstance(error, ModelError):
            passed = error.exception.frames if error.exception is not None else ()
            frames = [
                FrameState(frame.file, frame.line, frame.function, start=frame.line, source=[], variables=[])
                for frame in passed
            ]
            self._add(
                phase="execute",
                text=f"{error.message} {error.reason}",
                error=error,
                frames=frames,
                requests=requests,
                batch_id=batch_id,
            )
            self.attach(error, requests)

    def error_of(self, failure: Failure, requests: Sequence[InferenceRequest]) -> ModelError:
        """Return the error of a failed `execute` of these requests."""
        error = failure_of(failure, self._stub.last_lines())
        self.attach(error, requests)
        return error

    def attach(self, error: ModelError, requests: Sequence[InferenceRequest]) -> None:
        """Attach the kept failure of one of these requests to the error."""
        error.capsule = self._book.find(self._stub.source.model, [request.serial for request in requests])

    def answered_with_error(self) -> None:
        """Count a response with an error made by the author."""
        self._book.answered_with_error(self._stub.source.model)

    def _add(
        self,
        phase: str,
        text: str,
        error: ModelError,
        frames: Sequence[FrameState],
        requests: Sequence[InferenceRequest],
        batch_id: int,
    ) -> None:
        source = self._stub.source
        records, left_out = keep_requests(requests)
        self._book.add(
            FailureCapsule(
                time_ns=self._clock.wall(),
                model=source.model,
                version=source.version,
                instance=self._stub.instance,
                pid=self._stub.process.pid,
                phase=phase,
                batch_id=batch_id,
                text=text,
                exception=error.exception,
                frames=tuple(frames),
                requests=records,
                left_out=left_out,
                failed_calls=self._book.of_calls(self._stub.instance, batch_id, self._since) if batch_id else (),
            )
        )
