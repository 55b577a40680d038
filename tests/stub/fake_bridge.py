"""A stand-in for the server: it records the calls of the author's objects, and answers as the test sets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tritonlab.stub._pb_stub.api.bridge import Bridge, BridgeError
from tritonlab.stub._pb_stub.api.infer_request import InferenceRequest
from tritonlab.stub._pb_stub.api.infer_response import InferenceResponse
from tritonlab.stub._pb_stub.wire.ipc_message import ROW


class FakeCall:
    """The responses of one BLS request; an exception among them is raised in its turn."""

    def __init__(self, responses: Sequence[InferenceResponse | Exception]) -> None:
        self._left = list(responses)
        self.cancelled = False

    @property
    def done(self) -> bool:
        return not self._left

    def __iter__(self) -> Iterator[InferenceResponse]:
        return self

    def __next__(self) -> InferenceResponse:
        if not self._left:
            raise StopIteration
        response = self._left.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    def cancel(self) -> None:
        self.cancelled = True


class FakeBridge(Bridge):
    """The bridge of a test. `answers[command]` is a value, an exception or a function of the body."""

    phase = "execute"
    instance_name = "m_0_0"
    model_dir = "/repository/m/1"

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.logs: list[tuple[int, str, str, int]] = []
        self.sent: list[tuple[int, InferenceResponse | None, int]] = []
        self.cancelled: set[int] = set()
        self.dropped: list[tuple[int, bool]] = []
        self.bls: Callable[[InferenceRequest, bool], FakeCall] = lambda request, decoupled: FakeCall([])
        self._next_id = 0

    def log(self, level: int, message: str, file: str, line: int) -> None:
        self.logs.append((level, message, file, line))

    def call(self, message: Any) -> Any:
        command, body = ROW[type(message)].name, list(message)
        self.calls.append((command, body))
        if command not in self.answers:
            self._next_id += 1
            return self._next_id
        answer = self.answers[command]
        if isinstance(answer, Exception):
            raise answer
        return answer(body) if callable(answer) else answer

    def is_cancelled(self, handle: int) -> bool:
        return handle in self.cancelled

    def send_response(self, handle: int, response: InferenceResponse | None, flags: int) -> None:
        if "RESPONSE" in self.answers:
            raise self.answers["RESPONSE"]
        self.sent.append((handle, response, flags))

    def forgotten(self, handle: int, answered: bool) -> None:
        self.dropped.append((handle, answered))

    def infer(self, request: InferenceRequest, decoupled: bool) -> FakeCall:
        return self.bls(request, decoupled)


def refusal(text: str, code: int = 1) -> BridgeError:
    """Return an error that the server refuses a call with."""
    return BridgeError(text, code)
