"""The author's InferenceRequest: what `execute` gets, and what a model builds to call another one (BLS)."""

from __future__ import annotations

from typing import (
    Any,
    Awaitable,
    Dict,
    FrozenSet,
    Iterable,
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
from .argument_check import (
    CAST_ERROR,
    INT64_MAX,
    UINT32_MAX,
    UINT64_MAX,
    as_flag,
    as_int,
    as_text,
    is_sequence,
    mismatch,
)
from .bridge import BridgeError
from .errors import NativeObject, TritonError, TritonModelException
from .infer_response import InferenceResponse
from .pb_memory import InferenceTrace, PreferredMemory
from .pb_response_iterator import ResponseIterator
from .pb_tensor import Tensor
from .request_parameters import encode_parameters, fits_the_server
from .response_sender import NO_HANDLE, InferenceResponseSender, ask_cancelled

_SIGNATURE = (
    "c_python_backend_utils.InferenceRequest(request_id: str = '', correlation_id: object = 0, "
    "inputs: List[triton::backend::python::PbTensor], requested_output_names: List[str], model_name: str, "
    "model_version: int = -1, flags: int = 0, timeout: int = 0, "
    "preferred_memory: c_python_backend_utils.PreferredMemory = <unset>, "
    "trace: c_python_backend_utils.InferenceTrace = <empty>, parameters: object = None)"
)
#: stands for an argument that was not given where None is a wrong value
_UNSET: Any = type("_Unset", (), {"__repr__": lambda self: "<unset>"})()

_new = object.__new__


class InferenceRequest(NativeObject):
    """One inference request.

    `request_id`: any text. `correlation_id`: the sequence it belongs to, an int or a text, 0 for none.
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
        inputs: Sequence[Tensor] = _UNSET,
        requested_output_names: Sequence[str] = _UNSET,
        model_name: str = _UNSET,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory = _UNSET,
        trace: InferenceTrace = _UNSET,
        parameters: Optional[Dict[str, Union[bool, int, str]]] = None,
    ) -> None:
        """A request to `model_name`, to be run with `exec` or `async_exec`.

        `inputs`, `requested_output_names` and `model_name` are required; no names means all outputs. Raises TypeError
        for arguments of another type, TritonModelException for an empty entry, another kind of correlation id or
        parameters that are not bool, int or str, RuntimeError for a correlation id outside 64 bits.
        """
        ident = request_id if type(request_id) is str else as_text(request_id)
        model = model_name if type(model_name) is str else as_text(model_name)
        version = as_int(model_version, -INT64_MAX - 1, INT64_MAX)
        mask = as_int(flags, 0, UINT32_MAX)
        limit = as_int(timeout, 0, UINT64_MAX)
        names = _names(requested_output_names)
        tensors = _tensors(inputs)
        if (
            ident is None
            or model is None
            or version is None
            or mask is None
            or limit is None
            or names is None
            or tensors is None
            or correlation_id is None
            or not isinstance(preferred_memory, (PreferredMemory, type(_UNSET)))
            or not isinstance(trace, (InferenceTrace, type(_UNSET)))
        ):
            values = locals()
            given = {name: values[name] for name, default in _DEFAULTS.items() if values[name] is not default}
            raise mismatch("__init__", _SIGNATURE, (), given)
        self._parameters = encode_parameters(parameters)
        self._correlation_id = _checked_correlation_id(correlation_id)
        where = "for request with id '%s' and model name '%s' should not be empty." % (ident, model)
        if None in tensors:
            raise TritonModelException("Input tensor " + where)
        if "" in names:
            raise TritonModelException("Requested output name " + where)
        self._request_id = ident
        self._model_name = model
        self._model_version = version
        self._flags = mask
        self._timeout = limit
        self._inputs: List[Tensor] = tensors
        self._requested: FrozenSet[str] = frozenset(names)
        self._preferred_memory: Optional[PreferredMemory] = None if preferred_memory is _UNSET else preferred_memory
        self._trace: Optional[InferenceTrace] = None if trace is _UNSET else trace
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
        """A request that came from the server, whose rules it has passed there."""
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

    # -- what the request says

    def inputs(self) -> List[Tensor]:
        """The input tensors, a new list on each call, in no particular order: look them up by name (rule 1.4.12)."""
        return self._inputs.copy()

    def request_id(self) -> str:
        """The client's id of the request, empty if it gave none."""
        return self._request_id

    def correlation_id(self) -> Union[int, str]:
        """The sequence's id, an int or a text; 0 if there is none."""
        return self._correlation_id

    def flags(self) -> int:
        """Sequence start (1) and end (2), or both (3)."""
        return self._flags

    def set_flags(self, flags: int, /) -> None:
        """Replaces the flags, for a BLS request. Raises TypeError unless it is an unsigned 32-bit integer."""
        self._flags = self._uint32("set_flags", flags)

    def timeout(self) -> int:
        """The client's timeout in microseconds, 0 if it gave none. Nothing enforces it during `execute`."""
        return self._timeout

    def parameters(self) -> str:
        """The request's parameters as JSON text, `{}` if there are none."""
        return self._parameters or "{}"

    def requested_output_names(self) -> Set[str]:
        """The names of the outputs the client wants; all of the model's if it named none."""
        return set(self._requested)

    def trace(self) -> InferenceTrace:
        """The request's trace, to be handed on to a BLS request as its `trace`."""
        return self._trace if self._trace is not None else InferenceTrace._of(None)

    # -- answering it

    def get_response_sender(self) -> InferenceResponseSender:
        """The sender that answers this request; the same object on each call."""
        if self._sender is None:
            self._sender = InferenceResponseSender._of(self._handle, self._decoupled)
        return self._sender

    def is_cancelled(self) -> bool:
        """Whether the client has given the request up. Asks the server each time.

        Raises TritonModelException on a request the model built itself; Triton aborts the server there (rule 1.7.10).
        """
        return ask_cancelled(self._handle)

    def set_release_flags(self, flags: int, /) -> None:
        """With TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, and None in the returned list, the request comes back later."""
        self._release_flags = self._uint32("set_release_flags", flags)

    def _uint32(self, function: str, value: Any) -> int:
        number = as_int(value, 0, UINT32_MAX)
        if number is None:
            raise mismatch(
                function, "(self: c_python_backend_utils.InferenceRequest, arg0: int) -> None", (self, value)
            )
        return number

    # -- running it (BLS)

    @overload
    def exec(self, decoupled: Literal[False] = False) -> InferenceResponse: ...
    @overload
    def exec(self, decoupled: Literal[True]) -> ResponseIterator: ...
    @overload
    def exec(self, decoupled: bool) -> Union[InferenceResponse, ResponseIterator]: ...

    def exec(self, decoupled: bool = False) -> Union[InferenceResponse, ResponseIterator]:
        """Runs the request on this server and waits for its answer.

        Returns an InferenceResponse, or with `decoupled=True` a ResponseIterator. What goes wrong with the called
        model is in the response: look at `has_error()`. Raises TritonModelException outside of `execute`.
        """
        several = as_flag(decoupled)
        if several is None:
            raise mismatch(
                "exec",
                "(self: c_python_backend_utils.InferenceRequest, decoupled: bool = False) -> object",
                (self, decoupled),
            )
        link = bridge.current()
        if link.phase != "execute":
            raise TritonModelException("BLS is only supported during the 'execute' function.")
        try:
            if not fits_the_server(self._parameters):
                text = "Model %s - Error when running inference: Unsupported value type on parameters"
                raise BridgeError(text % self._model_name)
            responses = link.infer(self, several)
            if several:
                return ResponseIterator._of(responses)
            return next(iter(responses), None) or _failed("Unexpected empty response.")
        except BridgeError as error:
            answer = _failed(error.text, error.code)
            return ResponseIterator._of(iter([answer])) if several else answer

    @overload
    def async_exec(self, decoupled: Literal[False] = False) -> Awaitable[InferenceResponse]: ...
    @overload
    def async_exec(self, decoupled: Literal[True]) -> Awaitable[ResponseIterator]: ...
    @overload
    def async_exec(self, decoupled: bool) -> Awaitable[Union[InferenceResponse, ResponseIterator]]: ...

    def async_exec(self, decoupled: bool = False) -> Awaitable[Union[InferenceResponse, ResponseIterator]]:
        """Does what `exec` does, to be awaited: it runs in the default executor of the running event loop.

        Raises RuntimeError if there is none.
        """
        return awaited_calls.start(self.exec, decoupled)

    def _bls_fields(self) -> BlsRequest:
        """What the server needs besides the inputs."""
        memory = self._preferred_memory
        return BlsRequest(
            self._model_name,
            self._model_version,
            self._request_id,
            self._correlation_id,
            self._flags,
            self._timeout,
            sorted(self._requested),
            self._parameters,
            None if memory is None else [int(memory._type), memory._device_id],
            None if self._trace is None else self._trace._wire(),
        )


_DEFAULTS: Dict[str, Any] = {
    "request_id": "",
    "correlation_id": 0,
    "inputs": _UNSET,
    "requested_output_names": _UNSET,
    "model_name": _UNSET,
    "model_version": -1,
    "flags": 0,
    "timeout": 0,
    "preferred_memory": _UNSET,
    "trace": _UNSET,
    "parameters": None,
}


def _failed(text: str, code: int = 1) -> InferenceResponse:
    """The answer that stands for a failure (rules 4.2.1-4.2.3)."""
    return InferenceResponse._received([], TritonError._of_code(text, code), "")


def _tensors(inputs: Any) -> Optional[List[Tensor]]:
    """The inputs as a list, or None if they are no sequence of tensors.

    A None among them is refused later, with another error.
    """
    if not is_sequence(inputs):
        return None
    tensors = [*inputs]
    return tensors if all(tensor is None or isinstance(tensor, Tensor) for tensor in tensors) else None


def _names(names: Any) -> Optional[Iterable[str]]:
    if not is_sequence(names):
        return None
    texts = [name if type(name) is str else as_text(name) for name in names]
    return None if None in texts else texts  # type: ignore[return-value]


def _checked_correlation_id(value: Any) -> Union[int, str]:
    if isinstance(value, str):
        return value
    if not isinstance(value, int):
        raise TritonModelException("Correlation ID must be integer or string")
    if not 0 <= value <= UINT64_MAX:
        raise RuntimeError(CAST_ERROR)
    return int(value)
