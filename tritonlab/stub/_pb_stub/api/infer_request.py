"""The author's InferenceRequest: an argument of `execute`, or a model's own request to another model (BLS)."""

from __future__ import annotations

from typing import (
    Any,
    Awaitable,
    Dict,
    FrozenSet,
    List,
    Literal,
    Optional,
    Sequence,
    Set,
    Union,
    overload,
)

from ..wire.message_bodies import BlsRequest
from . import awaited_calls, bridge
from .argument_check import UINT32_MAX, as_flag, as_int, mismatch
from .bridge import BridgeError
from .errors import NativeObject, TritonError, TritonModelException
from .infer_response import InferenceResponse
from .parameters_text import fits_the_server
from .pb_memory import InferenceTrace, PreferredMemory
from .pb_response_iterator import ResponseIterator
from .pb_tensor import Tensor
from .request_arguments import UNSET, checked_arguments
from .response_sender import NO_HANDLE, InferenceResponseSender, query_cancelled
from .signal_gate import uninterrupted

_new = object.__new__


class InferenceRequest(NativeObject):
    """One inference request.

    `request_id`: any text. `correlation_id`: the id of its sequence, an int or a text, 0 for none.
    `model_version` -1: the latest. `flags`: sequence start (1) and end (2). `timeout`: microseconds, 0 for none.
    """

    __slots__ = (
        "_correlation_id",
        "_decoupled",
        "_flags",
        "_handle",  # the server's number of a received request
        "_inputs",
        "_model_name",
        "_model_version",
        "_parameters",
        "_preferred_memory",
        "_release_flags",
        "_request_id",
        "_requested",
        "_sender",
        "_timeout",
        "_trace",
    )

    def __init__(
        self,
        request_id: str = "",
        correlation_id: Union[int, str] = 0,
        inputs: Sequence[Tensor] = UNSET,
        requested_output_names: Sequence[str] = UNSET,
        model_name: str = UNSET,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory = UNSET,
        trace: InferenceTrace = UNSET,
        parameters: Optional[Dict[str, Union[bool, int, str]]] = None,
    ) -> None:
        """Make a request to `model_name`, to be run with `exec` or `async_exec`.

        `inputs`, `requested_output_names` and `model_name` are required; no names means all outputs. Raises TypeError
        for arguments of another type; TritonModelException for an empty entry, another kind of correlation id, or
        parameters that are not bool, int or str; RuntimeError for a correlation id outside 64 bits.
        """
        arguments = checked_arguments(locals())
        self._request_id = arguments.request_id
        self._correlation_id = arguments.correlation_id
        self._inputs = arguments.inputs
        self._requested = arguments.outputs
        self._model_name = arguments.model
        self._model_version = arguments.version
        self._flags = arguments.flags
        self._timeout = arguments.timeout
        self._preferred_memory = arguments.memory
        self._trace = arguments.trace
        self._parameters = arguments.parameters
        self._handle = NO_HANDLE
        self._decoupled = False
        self._release_flags = 1
        self._sender: Optional[InferenceResponseSender] = None

    @classmethod
    def _received(
        cls,
        handle: int,
        request_id: str,
        correlation_id: Union[int, str],
        flags: int,
        timeout: int,
        parameters_json: str,
        requested_output_names: FrozenSet[str],
        inputs: List[Tensor],
        model_name: str,
        model_version: int,
        decoupled: bool = False,
    ) -> InferenceRequest:
        """Make a request that came from the server, which has already checked it."""
        self: InferenceRequest = _new(cls)
        self._handle = handle
        self._request_id = request_id
        self._correlation_id = correlation_id
        self._flags = flags
        self._timeout = timeout
        self._parameters = parameters_json
        self._requested = requested_output_names
        self._inputs = inputs
        self._model_name = model_name
        self._model_version = model_version
        self._decoupled = decoupled
        self._release_flags = 1
        self._sender = None
        self._preferred_memory = None
        self._trace = None
        return self

    # -- its fields

    def inputs(self) -> List[Tensor]:
        """Return the input tensors, a new list on each call, in no particular order: look them up by name (rule
        1.4.12)."""
        return self._inputs.copy()

    def request_id(self) -> str:
        """Return the client's id of the request, empty if it has none."""
        return self._request_id

    def correlation_id(self) -> Union[int, str]:
        """Return the sequence's id, an int or a text; 0 if it has none."""
        return self._correlation_id

    def flags(self) -> int:
        """Return sequence start (1), sequence end (2), or both (3)."""
        return self._flags

    def set_flags(self, flags: int, /) -> None:
        """Replace the flags, for a BLS request. Raises TypeError unless it is an unsigned 32-bit integer."""
        self._flags = _uint32(self, "set_flags", flags)

    def timeout(self) -> int:
        """Return the client's timeout in microseconds, 0 if it has none. Nothing enforces it during `execute`."""
        return self._timeout

    def parameters(self) -> str:
        """Return the request's parameters as JSON text, `{}` if there are none."""
        return self._parameters or "{}"

    def requested_output_names(self) -> Set[str]:
        """Return the names of the requested outputs; all of the model's if the client named none."""
        return set(self._requested)

    def trace(self) -> InferenceTrace:
        """Return the request's trace, to be used as the `trace` of a BLS request."""
        return self._trace if self._trace is not None else InferenceTrace._from_context(None)

    # -- its answer

    def get_response_sender(self) -> InferenceResponseSender:
        """Return the sender that answers this request; the same object on each call."""
        if self._sender is None:
            self._sender = InferenceResponseSender._from_handle(self._handle, self._decoupled)
        return self._sender

    def is_cancelled(self) -> bool:
        """Return whether the client has cancelled the request. Raises TritonModelException for a request that the model
        built, for which Triton aborts the server (rule 1.7.10).
        """
        return query_cancelled(self._handle)

    def set_release_flags(self, flags: int, /) -> None:
        """Set the fate of the request after `execute` returns. With TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, and None
        in its place in the returned list, the request returns later. Raises TypeError unless it is an unsigned 32-bit
        integer.
        """
        self._release_flags = _uint32(self, "set_release_flags", flags)

    # -- running it (BLS)

    @overload
    def exec(self, decoupled: Literal[False] = False) -> InferenceResponse: ...
    @overload
    def exec(self, decoupled: Literal[True]) -> ResponseIterator: ...
    @overload
    def exec(self, decoupled: bool) -> Union[InferenceResponse, ResponseIterator]: ...

    def exec(self, decoupled: bool = False) -> Union[InferenceResponse, ResponseIterator]:
        """Run the request on this server and wait for its answer.

        Returns an InferenceResponse, or with `decoupled=True` a ResponseIterator. Errors of the called model are in the
        response: check `has_error()`. Raises TritonModelException outside of `execute`.
        """
        return _run(self, decoupled)

    @overload
    def async_exec(self, decoupled: Literal[False] = False) -> Awaitable[InferenceResponse]: ...
    @overload
    def async_exec(self, decoupled: Literal[True]) -> Awaitable[ResponseIterator]: ...
    @overload
    def async_exec(self, decoupled: bool) -> Awaitable[Union[InferenceResponse, ResponseIterator]]: ...

    def async_exec(self, decoupled: bool = False) -> Awaitable[Union[InferenceResponse, ResponseIterator]]:
        """Do as `exec`, to be awaited: it runs in the default executor of the running event loop. Raises
        RuntimeError if no event loop is running."""
        return awaited_calls.start(self.exec, decoupled)

    def _bls_fields(self) -> BlsRequest:
        """Return the fields for the server besides the inputs."""
        memory = self._preferred_memory
        return BlsRequest(
            model=self._model_name,
            version=self._model_version,
            request_id=self._request_id,
            correlation_id=self._correlation_id,
            flags=self._flags,
            timeout=self._timeout,
            outputs=sorted(self._requested),
            parameters=self._parameters,
            memory=None if memory is None else [int(memory._type), memory._device_id],
            trace=None if self._trace is None else self._trace._wire(),
        )


def _uint32(request: InferenceRequest, function: str, value: Any) -> int:
    number = as_int(value, 0, UINT32_MAX)
    if number is None:
        signature = "(self: c_python_backend_utils.InferenceRequest, arg0: int) -> None"
        raise mismatch(function, signature, (request, value))
    return number


@uninterrupted
def _run(request: InferenceRequest, decoupled: Any) -> Union[InferenceResponse, ResponseIterator]:
    several = decoupled if decoupled.__class__ is bool else as_flag(decoupled)
    if several is None:
        signature = "(self: c_python_backend_utils.InferenceRequest, decoupled: bool = False) -> object"
        raise mismatch("exec", signature, (request, decoupled))
    link = bridge.current()
    if link.phase != "execute":
        raise TritonModelException("BLS is only supported during the 'execute' function.")
    try:
        if request._parameters and not fits_the_server(request._parameters):
            text = "Model %s - Error when running inference: Unsupported value type on parameters"
            raise BridgeError(text % request._model_name)
        responses = link.infer(request, several)
        if several:
            return ResponseIterator._from_call(responses)
        return next(responses, None) or _failed("Unexpected empty response.")
    except BridgeError as error:
        answer = _failed(error.text, error.code)
        return ResponseIterator._from_call(iter([answer])) if several else answer


def _failed(text: str, code: int = 1) -> InferenceResponse:
    """Make the response for a failure (rules 4.2.1-4.2.3)."""
    return InferenceResponse._received([], TritonError._of_code(text, code), "")
