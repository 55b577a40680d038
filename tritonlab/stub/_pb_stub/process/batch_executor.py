"""The execution of batches: an EXECUTE becomes request objects for the author's `execute`, whose responses go back."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from typing import Any, List, Optional, Sequence, Tuple

from ..api.errors import TritonError, TritonModelException, code_of
from ..api.infer_request import InferenceRequest
from ..api.infer_response import InferenceResponse
from ..api.pb_memory import InferenceTrace
from ..api.signal_gate import run_authors
from ..wire.connection import LinkClosed
from ..wire.ipc_message import NUMBER
from ..wire.message_bodies import LAST, RESCHEDULED, Failure, Initialize, Raised, Response, ResponseError, Row
from ..wire.serialization import MAX_TEXT, bounded
from ..wire.shm_manager import SharedMemoryError
from .author_call import leave_fork, report_failure
from .author_error import failure_of, log_text, place_of, traceback_text, triton_text
from .model_context import ModelContext, ModelFailure
from .prints import flush_prints
from .region_tensors import Sent, keep_sent, received_tensors
from .stub_bridge import StubBridge

_EXECUTED = NUMBER["EXECUTED"]
#: The release flag of a request to be scheduled again.
_RESCHEDULE = 2
_GIVEN_UP = TritonError("Request cancelled", TritonError.CANCELLED)


class BatchExecutor:
    """The executor of one batch after the other on the main thread, from INITIALIZE on."""

    def __init__(self, bridge: StubBridge, context: ModelContext, model: Initialize) -> None:
        self._bridge = bridge
        self._context = context
        self._decoupled = model.decoupled
        self._outputs = frozenset(model.outputs)
        self._model_name = model.args["model_name"]
        self._model_version = int(model.args["model_version"])

    def execute(self, ident: int, block: Optional[int], entries: List[Row]) -> None:
        """Run the batch `ident`, whose inputs are in `block`, and send EXECUTED in any case. Raises LinkClosed."""
        started = time.perf_counter_ns()
        requests: List[InferenceRequest] = []
        passed: List[InferenceRequest] = []  # the author's list, which the author may change
        returned: Any = None
        packed: Optional[int] = None
        outputs: List[Any] = []
        sent: Sequence[Sent] = ()
        called = finished = started
        try:
            requests = self._receive_requests(block, entries)
            passed = requests.copy()
            called = time.perf_counter_ns()
            error, returned = self._call_model(entries, requests, passed)
            finished = time.perf_counter_ns()
            if error is None:
                packed, outputs, sent = _pack_returned(self._bridge, requests, passed, returned, self._decoupled)
        except (ModelFailure, SharedMemoryError, TritonModelException) as failure:
            error = self._broke_a_rule(failure, entries)
        except Exception as failure:  # probably out of memory; the next batch may be smaller
            error = self._raised(failure, entries)
        for index, (handle, *_) in enumerate(entries):
            # open requests are answered later, through their senders
            if error is not None or outputs[index] is not None:
                self._bridge.open_requests.pop(handle, None)
        # this very message returns the inputs to the server, unless the author kept one
        del requests, passed, returned
        if sent:
            keep_sent(self._bridge.region, packed, sent)
        flush_prints()
        done = time.perf_counter_ns()
        # the row of an Executed
        executed = [called - started, finished - called, done - finished, error, packed, outputs]
        self._bridge.connection.send(_EXECUTED, ident, executed)

    def _receive_requests(self, block: Optional[int], entries: List[Row]) -> List[InferenceRequest]:
        if len(entries) == 1:
            headers = entries[0][7]
        else:
            headers = [header for _, _, _, _, _, _, _, rows, _ in entries for header in rows]
        tensors = received_tensors(self._bridge.reader, self._bridge.connection.freed, block, headers)
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
                parameters_json=parameters,
                requested_output_names=requested,
                inputs=tensors[position:end],
                model_name=self._model_name,
                model_version=self._model_version,
                decoupled=self._decoupled,
            )
            if trace is not None:
                number, context = trace
                request._trace = InferenceTrace._from_context(context, number)
            if self._decoupled:
                request.get_response_sender()  # reports it if both are gone without the final flag
            requests.append(request)
            position = end
        return requests

    def _call_model(
        self, entries: List[Row], requests: List[InferenceRequest], passed: List[InferenceRequest]
    ) -> Tuple[Optional[Failure], Any]:
        """Call the author's `execute`. Returns the text of its failure, if any, and its result."""
        bridge = self._bridge
        try:
            bridge.running.requests = requests
            try:
                returned = run_authors(self._context.execute, passed)
                # not by `async def`: a decorated function is often none
                if returned.__class__ is not list and returned is not None and asyncio.iscoroutine(returned):
                    returned = self._run(returned, requests)
            finally:
                bridge.running.requests = None
                if bridge.abandoned:
                    leave_fork(sys.exc_info()[1])
            return None, returned
        except ModelFailure as failure:
            return self._broke_a_rule(failure, entries), None
        except BaseException as error:
            return self._raised(error, entries), None

    # -- async def execute

    def _run(self, coroutine: Any, requests: List[InferenceRequest]) -> Any:
        """Wait for `execute`'s coroutine and return its result; a decoupled model's is not awaited (rule 3.8.2)."""
        awaited = self._context.run(coroutine)
        if self._decoupled:
            handles = [request._handle for request in requests]
            awaited.future.add_done_callback(lambda future: self._coroutine_done(future, handles))
            return None
        self._bridge.running.coroutine = awaited
        try:
            return run_authors(awaited.future.result)
        finally:
            self._bridge.running.coroutine = None
            del awaited  # otherwise an exception would hold its own frames, and with them the inputs

    def _coroutine_done(self, future: Any, handles: List[int]) -> None:
        """End the requests of a decoupled coroutine that raised, with its error. On Triton the error is only logged,
        and the stream waits for ever (rule 3.8.2).
        """
        error = future.exception()
        if error is None:
            return
        with contextlib.suppress(LinkClosed):  # the server is gone, as the main loop notices too
            if isinstance(error, asyncio.CancelledError) and all(map(self._bridge.is_cancelled, handles)):
                # the author stops a request that its client has cancelled: no failure, and nothing for the log
                response_error = ResponseError(code_of(_GIVEN_UP), _GIVEN_UP.message())
            else:
                self._log(error, traceback_text(error))
                failure = failure_of(error, self._failed(triton_text(error)))
                report_failure(self._bridge, failure, error, [h for h in handles if h in self._bridge.open_requests])
                response_error = ResponseError(None, failure.text, failure.exception)
            response = Response(flags=LAST, block=None, tensors=[], error=response_error, parameters="")
            for handle in handles:
                if self._bridge.open_requests.pop(handle, None) is not None:
                    self._bridge.tell(response, handle)

    # -- failures

    def _raised(self, error: BaseException, entries: List[Row]) -> Failure:
        """Log that `execute` raised (rule 3.5.4), and return the text for clients."""
        text = self._failed(triton_text(error))
        self._log(error, log_text(error, text))
        failure = failure_of(error, text)
        report_failure(self._bridge, failure, error, [handle for handle, *_ in entries])
        return failure

    def _broke_a_rule(self, error: Exception, entries: List[Row]) -> Failure:
        """Log a result of `execute` that Triton refuses, and return the text for clients."""
        failure = Failure(self._failed(str(error)))
        self._log(error, failure.text)
        report_failure(self._bridge, failure, None, [handle for handle, *_ in entries])
        return failure

    def _log(self, error: BaseException, text: str) -> None:
        if not self._bridge.abandoned:
            self._bridge.tell(Raised(*place_of(error, self._context.model_path), text))

    def _failed(self, text: str) -> str:
        text = bounded(text, 2 * MAX_TEXT)  # message and frames of an exception are each bounded
        return "Failed to process the request(s) for model '%s', message: %s" % (self._bridge.instance_name, text)


# -- the result of `execute`, checked by rules 3.2 and 3.3 in Triton's order


def _pack_returned(
    bridge: StubBridge,
    requests: List[InferenceRequest],
    passed: List[InferenceRequest],
    returned: Any,
    decoupled: bool,
) -> Tuple[Optional[int], List[Any], Sequence[Sent]]:
    """Pack all responses that `execute(passed)` returned into one block of the stub's region.

    Returns the block, the outcome of each request (an Output as its row, RESCHEDULED, or None if it is answered through
    its sender), and the tensors for `keep_sent`. Raises ModelFailure if `returned` breaks a rule.
    """
    marks: List[Any] = [(RESCHEDULED if request._release_flags == _RESCHEDULE else None) for request in requests]
    if RESCHEDULED in marks:
        _settle(requests)
    if decoupled:
        if returned is not None:
            raise ModelFailure(
                "Python model '%s' is using the decoupled mode and the execute function must return None."
                % bridge.instance_name
            )
        return None, marks, ()
    if returned is None:
        _check_answered(requests, marks)
        return None, marks, ()
    if returned.__class__ is not list or len(returned) != len(passed) or passed != requests:
        _check_list(requests, passed, returned)
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
        requested = bridge.open_requests.get(requests[index]._handle)
        if requested is not None:  # otherwise it was answered through its sender, which wins (rule 3.2.3)
            answers.append((response, requested))
            slots.append(index)
    if None in returned:
        _check_answered(requests, [mark or response for mark, response in zip(marks, returned)])
    block, packed, sent = bridge.pack_responses(answers)
    for index, output in zip(slots, packed):
        marks[index] = output
    return block, marks, sent


def _check_list(requests: List[InferenceRequest], passed: List[InferenceRequest], returned: Any) -> None:
    if not isinstance(returned, list):
        raise ModelFailure("Expected a list in the execute return, found type '%s'." % type(returned))
    if len(returned) != len(passed):
        raise ModelFailure(
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            "InferenceRequest(s) size is:%d, and InferenceResponse(s) size is:%d\n" % (len(passed), len(returned))
        )
    if passed != requests:  # Triton's server crashes here, or answers the wrong request
        raise ModelFailure("The execute function changed the list of its requests. Work on a copy of it.")


def _check_answered(requests: List[InferenceRequest], results: List[Any]) -> None:
    """Refuse a request without a result and a sender, which nothing could ever answer. On Triton its client waits for
    ever (rules 3.2.1, 3.2.2).
    """
    for request, result in zip(requests, results):
        if result is None and request._sender is None:
            raise ModelFailure(
                "The execute function returned None for a request whose response sender was never used: "
                "the request would never be answered. Return one InferenceResponse per request."
            )


def _settle(requests: List[InferenceRequest]) -> None:
    """Release the senders of rescheduled requests: they get new senders, and the old ones owe no response."""
    for request in requests:
        if request._release_flags == _RESCHEDULE and request._sender is not None:
            request._sender._owed = False
