"""The stub's main loop: take a command, do it, answer. One table maps commands to handlers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple, Type

from ..api import own_threads
from ..api.errors import TritonModelException
from ..api.infer_request import InferenceRequest
from ..api.infer_response import InferenceResponse
from ..api.pb_memory import InferenceTrace
from ..wire.connection import Connection, LinkClosed
from ..wire.ipc_message import (
    BY_NUMBER,
    NUMBER,
    RESCHEDULED,
    AutoComplete,
    Awake,
    DumpStacks,
    Execute,
    Failure,
    Finalize,
    GiveBack,
    Import,
    Initialize,
    IsReady,
    Raised,
    Response,
    ResponseError,
    Result,
    Row,
    Waits,
    Wake,
)
from ..wire.serialization import MAX_TEXT, bounded
from ..wire.shm_manager import SharedMemoryError, trim_heap
from .author_error import failure_of, log_text, place_of, traceback_text, triton_text
from .model_context import ModelContext, ModelFailure
from .stub_bridge import Sent, StubBridge, received_tensors
from .thread_stacks import all_stacks

_RESCHEDULE = 2
_EXECUTED = NUMBER["EXECUTED"]
_FINAL = 1
#: Seconds of polling for the next command, where it pays at all.
_LEAST_SPIN = 2e-4


class MainLoop:
    """Runs on the process's main thread, as the author's code expects (signals, torch, tracing)."""

    def __init__(self, bridge: StubBridge, context: ModelContext, monitor: Connection) -> None:
        self._bridge = bridge
        self._context = context
        self._monitor = monitor
        self._decoupled = False
        self._outputs: "frozenset[str]" = frozenset()
        self._model_name = ""
        self._model_version = 1
        self._spin = 0.0
        self._idle = 0.0  # seconds without a command before this one
        #: of the last answers, for `keep_sent`
        self._sent: Sequence[Sent] = ()
        self._running = True
        self._handlers: Dict[Type[Any], Callable[[Any], Any]] = {
            Import: self._import,
            AutoComplete: lambda body: context.auto_complete_config(body.config),
            Initialize: self._initialize,
            Finalize: self._finalize,
            GiveBack: self._give_back,
        }
        #: of the monitor thread; quick
        self._answers: Dict[Type[Any], Callable[[Any], Any]] = {
            DumpStacks: lambda body: all_stacks(self._context.loop),
            Waits: lambda body: bridge.waits(),
            Wake: lambda body: bridge.tell(Awake()),
        }

    def run(self) -> None:
        """Serves commands until FINALIZE, or until the kernel is gone."""
        own_threads.start("monitor", self._watch)
        self._bridge.errands.start()
        execute = NUMBER["EXECUTE"]
        while self._running:
            idle = time.perf_counter()
            command, ident, fields = self._bridge.next_command(self._spin)
            self._idle = time.perf_counter() - idle
            row = BY_NUMBER[command]
            if command == execute:
                self._execute(ident, row.read(fields))
            else:
                self._bridge.tell(self._result(self._handlers[row.body], row.read(fields)), ident)

    def _result(self, handler: Callable[[Any], Any], body: Any) -> Result:
        try:
            result = Result(handler(body))
        except ModelFailure as failure:
            result = Result(None, Failure(bounded(str(failure))))
        except BaseException as error:  # SystemExit too: Triton reports it like any other (rule 2.5.5)
            result = Result(None, failure_of(error))
        if self._bridge.abandoned:
            _leave(None)
        _flush()
        return result

    # -- life cycle

    def _import(self, body: Import) -> None:
        os.environ.clear()
        os.environ.update(body.env)
        if body.cwd:
            os.chdir(body.cwd)
        self._bridge.model_dir = body.model_dir
        self._bridge.instance_name = body.instance
        self._context.load(body.module, body.paths, body.path)

    def _initialize(self, body: Initialize) -> None:
        args, self._decoupled = body.args, body.decoupled
        self._outputs = frozenset(body.outputs)
        self._bridge.declared = set(body.outputs)
        self._model_name = args["model_name"]
        self._model_version = int(args["model_version"])
        self._bridge.instance_name = args["model_instance_name"]
        self._context.initialize(args)

    def _finalize(self, body: Finalize) -> None:
        self._running = False
        self._context.finalize()

    def _give_back(self, body: GiveBack) -> None:
        self._bridge.region.give_back()
        trim_heap()

    # -- execution

    def _execute(self, ident: int, body: Execute) -> None:
        started = time.perf_counter_ns()
        longest = body.spin_us * 1e-6
        # as long as it took this time, and as much again; not at all if polling would have been in vain
        self._spin = min(max(self._idle * 2, _LEAST_SPIN), longest) if self._idle < longest else 0.0
        requests: List[InferenceRequest] = []
        given: List[InferenceRequest] = []  # the author's list, which the author may change
        returned: Any = None
        packed: Optional[int] = None
        outputs: List[Any] = []
        called = finished = started
        try:
            requests = self._receive_requests(body.block, body.entries)
            given = requests.copy()
            called = time.perf_counter_ns()
            error, returned = self._call_model(requests, given)
            finished = time.perf_counter_ns()
            if error is None:
                packed, outputs = self._check_and_pack(requests, given, returned)
        except (ModelFailure, SharedMemoryError, TritonModelException) as failure:
            error = self._broke_a_rule(failure)
        except Exception as failure:  # out of memory, most likely; the next batch may be smaller
            error = self._raised(failure)
        for index, (handle, *_) in enumerate(body.entries):
            # what stays open is answered later, through its sender
            if error is not None or outputs[index] is not None:
                self._bridge.open_requests.pop(handle, None)
        # the inputs go back to the kernel with this very message, unless the author kept one
        del requests, given, returned
        if self._sent:
            self._bridge.keep_sent(packed, self._sent)
            self._sent = ()
        _flush()
        done = time.perf_counter_ns()
        # an Executed, as its row
        executed = [called - started, finished - called, done - finished, error, packed, outputs]
        self._bridge.connection.send(_EXECUTED, ident, executed)

    def _receive_requests(self, block: Optional[int], entries: List[Row]) -> List[InferenceRequest]:
        headers = [header for _, _, _, _, _, _, _, rows, _ in entries for header in rows]
        tensors = received_tensors(self._bridge, block, headers)
        requests = []
        position = 0
        for handle, request_id, correlation_id, flags, timeout, parameters, outputs, rows, trace in entries:
            requested = self._outputs if outputs is None else frozenset(outputs)
            self._bridge.open_requests[handle] = requested
            end = position + len(rows)
            request = InferenceRequest._received(
                handle,
                request_id,
                correlation_id,
                flags,
                timeout,
                parameters,
                requested,
                tensors[position:end],
                self._model_name,
                self._model_version,
                self._decoupled,
            )
            if trace is not None:
                number, context = trace
                request._trace = InferenceTrace._of(context, number)
            if self._decoupled:
                request.get_response_sender()  # it tells when request and sender are gone without the final flag
            requests.append(request)
            position = end
        return requests

    def _call_model(
        self, requests: List[InferenceRequest], given: List[InferenceRequest]
    ) -> Tuple[Optional[Failure], Any]:
        """Why it failed, and what execute returned if it did not."""
        bridge = self._bridge
        try:
            bridge.executing = requests
            try:
                returned = self._context.execute(given)
                if self._context.is_async:
                    returned = self._run(returned, requests)
            finally:
                bridge.executing = None
                if bridge.abandoned:
                    _leave(sys.exc_info()[1])
            return None, returned
        except ModelFailure as failure:
            return self._broke_a_rule(failure), None
        except BaseException as error:
            return self._raised(error), None

    def _run(self, coroutine: Any, requests: List[InferenceRequest]) -> Any:
        """What the coroutine of `execute` returned; a decoupled model's is not waited for (rule 3.8.2)."""
        awaited = self._context.run(coroutine)
        if self._decoupled:
            handles = [request._handle for request in requests]
            awaited.future.add_done_callback(lambda future: self._coroutine_done(future, handles))
            return None
        self._bridge.awaited = awaited
        try:
            return awaited.future.result()
        finally:
            self._bridge.awaited = None
            del awaited  # or an exception holds its own frames, and with them the inputs

    def _coroutine_done(self, future: Any, handles: List[int]) -> None:
        """A decoupled coroutine raised. Triton only logs it and the stream waits for ever (rule 3.8.2); here it
        gets the error and its end."""
        error = future.exception()
        if error is None:
            return
        with contextlib.suppress(LinkClosed):  # the kernel is gone, and the main loop hears of it too
            if isinstance(error, asyncio.CancelledError) and self._all_cancelled(handles):
                return  # the author gives up what the client has given up
            self._log(error, traceback_text(error))
            failure = failure_of(error, self._failed(triton_text(error)))
            response = Response(_FINAL, None, [], ResponseError(None, failure.text, failure.exception), "")
            for handle in handles:
                if self._bridge.open_requests.pop(handle, None) is not None:
                    self._bridge.tell(response, handle)

    def _all_cancelled(self, handles: List[int]) -> bool:
        return all(self._bridge.is_cancelled(handle) for handle in handles)

    def _raised(self, error: BaseException) -> Failure:
        """The failure of an `execute` that raised; the log is told, too (rule 3.5.4)."""
        text = self._failed(triton_text(error))
        self._log(error, log_text(error, text))
        return failure_of(error, text)

    def _broke_a_rule(self, failure: Exception) -> Failure:
        """The failure of an `execute` that Triton would refuse; the log is told, too."""
        text = self._failed(str(failure))
        self._log(failure, text)
        return Failure(text)

    def _log(self, error: BaseException, text: str) -> None:
        if not self._bridge.abandoned:
            self._bridge.tell(Raised(*place_of(error, self._context.model_path), text))

    def _failed(self, text: str) -> str:
        text = bounded(text, 2 * MAX_TEXT)  # message and frames of an exception are each bounded
        return "Failed to process the request(s) for model '%s', message: %s" % (self._bridge.instance_name, text)

    def _check_and_pack(
        self, requests: List[InferenceRequest], given: List[InferenceRequest], returned: Any
    ) -> Tuple[Optional[int], List[Any]]:
        """The checks of rules 3.2 and 3.3 in their order, then all responses in one block."""
        marks: List[Any] = [(RESCHEDULED if request._release_flags == _RESCHEDULE else None) for request in requests]
        if RESCHEDULED in marks:
            _settle(requests)
        if self._decoupled:
            if returned is not None:
                raise ModelFailure(
                    "Python model '%s' is using the decoupled mode and the execute function must return None."
                    % self._bridge.instance_name
                )
            return None, marks
        if returned is None:
            return None, self._check_answered(requests, marks)
        if not isinstance(returned, list):
            raise ModelFailure("Expected a list in the execute return, found type '%s'." % type(returned))
        if len(returned) != len(given):
            raise ModelFailure(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                "InferenceRequest(s) size is:%d, and InferenceResponse(s) size is:%d\n" % (len(given), len(returned))
            )
        if given != requests:  # Triton's server crashes here, or answers the wrong one
            raise ModelFailure("The execute function changed the list of its requests. Work on a copy of it.")
        answers = []
        slots = []
        for index, response in enumerate(returned):
            if response is None:
                continue
            if not isinstance(response, InferenceResponse):
                raise ModelFailure(
                    "Expected an 'InferenceResponse' object in the execute function return list, found type '%s'."
                    % type(response)
                )
            if marks[index] is not None:
                raise ModelFailure(
                    "Expected a None object in the execute function return list for reschduled request, "
                    "found type '%s'." % type(response)
                )
            requested = self._bridge.open_requests.get(requests[index]._handle)
            if requested is not None:  # else it was answered through its sender, which wins (rule 3.2.3)
                answers.append((response, requested))
                slots.append(index)
        self._check_answered(requests, [m or r for m, r in zip(marks, returned)])
        block, packed, self._sent = self._bridge.pack_responses(answers)
        for index, output in zip(slots, packed):
            marks[index] = output
        return block, marks

    def _check_answered(self, requests: List[InferenceRequest], results: List[Any]) -> List[Any]:
        """A request with no result and no sender can never be answered: Triton leaves its client waiting (rules
        3.2.1, 3.2.2), we say so."""
        for request, result in zip(requests, results):
            if result is None and request._sender is None:
                raise ModelFailure(
                    "The execute function returned None for a request whose response sender was never used: "
                    "the request would never be answered. Return one InferenceResponse per request."
                )
        return results

    # -- the monitor thread

    def _watch(self) -> None:
        """Answers the monitor socket, whatever the main thread is doing; the end of that socket is the end of the
        parent."""
        try:
            while True:
                message = self._monitor.receive()
                assert message is not None
                command, ident, _ = message
                kind = BY_NUMBER[command].body
                if kind is IsReady:
                    # on a thread of its own: one that hangs must not keep this one from saying where it hangs
                    own_threads.start("is_ready", self._answer, ident, self._is_ready, runs_authors=True)
                else:
                    self._answer(ident, self._answers[kind])
        except LinkClosed:
            os._exit(1)

    def _answer(self, ident: int, handler: Callable[[Any], Any]) -> None:
        with contextlib.suppress(LinkClosed):  # _watch sees it too
            self._monitor.send(NUMBER["RESULT"], ident, self._result(handler, None))

    def _is_ready(self, body: Any) -> Optional[bool]:
        return self._context.is_ready()


def _leave(error: Optional[BaseException]) -> NoReturn:
    """Ends a process that the model forked and that came back from its code into ours, where it has no business:
    Triton's goes on and disturbs its parent."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the author closed or replaced it
            sys.stderr.write(traceback_text(error))
        status = 1
    _flush()
    os._exit(status & 0xFF)


def _settle(requests: List[InferenceRequest]) -> None:
    """A request that is to come back will have another sender then: this one owes it nothing any more."""
    for request in requests:
        if request._release_flags == _RESCHEDULE and request._sender is not None:
            request._sender._owed = False


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105 - after every execute: suppress() costs a microsecond
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # the author closed or replaced it
