"""`RequestExecutor`, which runs a model's requests to other models and returns the responses (BLS, rule book 4)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...core.clock import Clock
from ...core.inference.copies import Copies
from ...core.inference.infer_request import InferenceRequest, ModelRequest, RequestState
from ...core.inference.infer_response import InferenceResponse, ParameterValue
from ...core.status import (
    Code,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from ...ipc.link.block_reader import BlockReader
from ...ipc.link.stub_link import Infer, SharedMemoryError, StubLink
from ..execution.response_factory import parse_parameters
from ..life.instance_state import InstanceState
from ..life.model_instance import ModelInstance
from .blocked_calls import NO_WAIT, BlockedCalls, BlsCall, Callee

#: Nanoseconds until the stubs of calls that may wait for one another are queried; each further pause is longer.
_FIRST_LOOK = 50_000_000
_LAST_LOOK = 3_000_000_000
#: Seconds for a stub's answer to WAITS.
_ASK_SECONDS = 1.0


class RequestExecutor:
    """The executor of the INFERs of stubs.

    `find(name, version)` finds the version for a request, `infer` starts the request there; both may raise TritonError.
    `later` calls a function after that many nanoseconds. `patience`: nanoseconds after which calls that wait for one
    another are refused even if a thread of the author could end the wait (0: never). `adopt(request, trace)` makes a
    request part of the trace of that number. `called(request, instance, batch_id)` is called for each request that
    starts. `copies` is notified of outputs that are moved to or from a GPU for a request's preference.
    """

    def __init__(
        self,
        infer: Callable[[InferenceRequest, Any], None],
        find: Callable[[str, int], Callee],
        clock: Clock,
        later: Callable[[int, Callable[[], None]], None],
        patience: int,
        adopt: Callable[[InferenceRequest, int], None],
        called: Callable[[InferenceRequest, str, int], None],
        copies: Copies,
    ) -> None:
        self._infer = infer
        self._find = find
        self._clock = clock
        self._later = later
        self._patience = patience
        self._adopt = adopt
        self._called = called
        self._copies = copies
        self._blocked = BlockedCalls()
        self._lock = threading.Lock()  # guards _running
        self._running: dict[tuple[int, int], BlsCall] = {}

    def start(self, caller: ModelInstance, link: StubLink, ident: int, infer: Infer) -> None:
        """Run the INFER `ident` of the stub behind `link`. It never raises, but sends an INFER_RESPONSE (rule 4.2)."""
        reader = BlockReader(link, infer.block)
        inputs = reader.tensors(infer.tensors)
        reader.finish()
        sent = infer.request
        request = ModelRequest(
            sent.model,
            inputs,
            model_version=sent.version,
            request_id=_to_nul(sent.request_id),
            correlation_id=_to_nul(sent.correlation_id),
            flags=sent.flags,
            timeout=sent.timeout,
            requested_outputs=tuple(sorted(sent.outputs)),
            parameters=_parameters(sent.parameters) if sent.parameters else None,
        )
        request.memory = sent.memory
        if sent.trace is not None:
            self._adopt(request, sent.trace.number)
        text = self._begin(caller, link, ident=ident, request=request, infer=infer)
        if text:
            link.fail(ident, True, int(Code.INTERNAL), text)

    def _begin(self, caller: ModelInstance, link: StubLink, ident: int, request: ModelRequest, infer: Infer) -> str:
        """Start the request. Returns the reason if it is refused, an empty text if it has started."""
        name = request.model_name
        if caller.state is not InstanceState.READY and (caller.stub is None or caller.stub.link is not link):
            return "BLS is only supported during the 'execute' function."  # a process forked by `initialize`, too early
        caller.called.add(name)
        try:
            callee = self._ready(name, request.model_version)
            if not infer.decoupled and callee.rules.decoupled:
                raise TritonError.from_code(Code.UNSUPPORTED, _DECOUPLED_TEXT % name)
            if len(request.inputs) < len(infer.tensors):
                raise _named_twice(request, [name for name, *_ in infer.tensors])
            if request.parameters and any("\0" in name for name in request.parameters):
                raise InternalError("Unexpected missing key on parameters")
        except TritonError as error:
            return _refused(name, error)
        waits = infer.wait
        call = BlsCall(caller, link, ident=ident, callee=callee, request=request, waits=waits)
        request.on_response = lambda _, response: self._answer(call, response)
        with self._lock:
            self._running[id(link), ident] = call
        if waits:
            caller.wait_for_another(True)
        text = ""
        try:
            verdict = self._blocked.enter(call)
            if verdict.refusal is not None:
                text = verdict.refusal.text
            else:
                if verdict.suspects:
                    self._later(_FIRST_LOOK, lambda: self._look_again(call, _FIRST_LOOK))
                request.caller = caller.name, call.batch
                self._called(request, caller.name, call.batch)
                self._infer(request, callee)
        except TritonError as error:
            text = _refused(name, error)
        if text:
            self._end(call)
            caller.wait_for_another(False)
        return text

    def _ready(self, name: str, version: int) -> Callee:
        """Return the version to call. Raises TritonError; any version that does not serve is not ready (rule 4.2.1)."""
        try:
            return self._find(name, version)
        except (NotFoundError, UnavailableError):
            text = f"Failed for execute the inference request. Model '{name}' is not ready."
            raise InternalError(text) from None

    def _look_again(self, call: BlsCall, pause: int) -> None:
        """Query the stubs if calls still seem to wait for one another; runs on the timer's thread."""
        if call.request.state is RequestState.RELEASED:
            return
        verdict = self._blocked.look(call, patient=False)
        if verdict.refusal or verdict.suspects:
            name = "bls waits"
            threading.Thread(target=self._ask, args=(call, verdict.suspects, pause), name=name, daemon=True).start()

    def _ask(self, call: BlsCall, suspects: Sequence[ModelInstance], pause: int) -> None:
        for instance in suspects:
            stub = instance.stub
            waits, needed = stub.waits(_ASK_SECONDS) if stub is not None else (NO_WAIT, [])
            for ident, received in needed:
                with self._lock:
                    known = self._running.get((id(stub.link), ident)) if stub is not None else None
                if known is not None and known.sent == received:  # otherwise an answer is being sent
                    known.waits = waits
        waited = self._clock.now() - call.request.request_start
        verdict = self._blocked.look(call, patient=0 < self._patience <= waited)
        refused = verdict.refusal
        if refused is not None:
            refused.call.callee.withdraw(refused.call.request, InternalError(refused.text))
        if refused is not None or verdict.suspects:
            pause = min(pause * 4, _LAST_LOOK)
            self._later(pause, lambda: self._look_again(call, pause))

    def _end(self, call: BlsCall) -> None:
        with self._lock:
            self._running.pop((id(call.link), call.ident), None)
        call.request.let_go()  # also after a refusal
        self._blocked.leave(call)

    def cancel(self, link: StubLink, ident: int) -> None:
        """Cancel a running INFER; ignores one that has ended (rule 1.10.6)."""
        with self._lock:
            call = self._running.get((id(link), ident))
        if call is not None:
            call.request.cancel()

    def calls(self) -> list[BlsCall]:
        """Return the calls that are not answered yet."""
        with self._lock:
            return list(self._running.values())

    def _answer(self, call: BlsCall, response: InferenceResponse) -> None:
        link = call.link
        if response.final:
            self._end(call)
        call.caller.wait_for_another(False)
        call.waits = NO_WAIT  # the caller continues with it; WAITS tells whether it waits for more
        call.sent += 1
        if link.lost:
            return
        if response.error is not None:
            link.fail(call.ident, response.final, int(response.error.code), response.error.message)
            return
        try:
            outputs = response.outputs
            if call.request.memory is not None:
                outputs = link.devices.preferred(outputs, call.request.memory)
                self._copies.tell_moved(call.request, response.outputs, outputs)
            link.respond(call.ident, response.final, outputs, response.parameters)
        except (SharedMemoryError, TritonError) as failure:
            link.fail(call.ident, response.final, int(Code.INTERNAL), str(failure))


def _named_twice(request: InferenceRequest, names: Sequence[str]) -> InvalidArgumentError:
    name = next(name for index, name in enumerate(names) if name in names[:index])
    return InvalidArgumentError(f"{request.prefix}input '{name}' already exists in request")


def _to_nul(value: Any) -> Any:
    """Return a text up to its first NUL, which is all that Triton keeps; other values are unchanged (rule 4.3.4)."""
    return value.partition("\0")[0] if type(value) is str and "\0" in value else value


def _parameters(text: str) -> dict[str, ParameterValue]:
    return {name: _to_nul(value) for name, value in parse_parameters(text).items()}


def _refused(model: str, error: TritonError) -> str:
    return f"Model {model} - Error when running inference: {error.message}"


#: The stray quote is Triton's (rule 4.2.1).
_DECOUPLED_TEXT = (
    "Model %s is using the decoupled. The current BLS request call doesn't support models using the decoupled "
    "transaction policy. "
    "Please use 'decoupled=True' argument to the 'exec' or 'async_exec' calls for decoupled models.'"
)
