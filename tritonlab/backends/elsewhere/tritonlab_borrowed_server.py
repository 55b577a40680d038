"""The gRPC connection to a running server that provides a model (rule 2.17.2)."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
import triton_python_backend_utils as pb_utils
from google.protobuf import json_format
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonlab_backend import BackendError
from tritonlab_exchange import Exchange
from tritonlab_recordings import NUMPY, NotCarriedError, RawTensor, Response

_START, _END = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END
#: The most seconds for a server to return a model's metadata and config.
_LOAD_SECONDS = 10.0
#: The most seconds for a server to report that it is live.
_LIVE_SECONDS = 2.0
#: Seconds between two checks for cancelled requests.
_LOOK_SECONDS = 0.05
_TIMEOUT = 60.0
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
#: The gRPC codes of a server that cannot be reached, or has gone.
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_CODES = {
    grpc.StatusCode.UNKNOWN: "UNKNOWN",
    grpc.StatusCode.INTERNAL: "INTERNAL",
    grpc.StatusCode.NOT_FOUND: "NOT_FOUND",
    grpc.StatusCode.INVALID_ARGUMENT: "INVALID_ARG",
    grpc.StatusCode.UNAVAILABLE: "UNAVAILABLE",
    grpc.StatusCode.DEADLINE_EXCEEDED: "UNAVAILABLE",
    grpc.StatusCode.UNIMPLEMENTED: "UNSUPPORTED",
    grpc.StatusCode.ALREADY_EXISTS: "ALREADY_EXISTS",
    grpc.StatusCode.CANCELLED: "CANCELLED",
}
#: Parameters of a response that concern its transport.
_TRANSPORT = ("triton_final_response",)


class BorrowedServer:
    """The server at `settings["server"]`, for one model of it."""

    def __init__(self, settings: Mapping[str, Any], model: str) -> None:
        self._address, self._model = settings["server"], model
        self._timeout = float(settings.get("timeout", _TIMEOUT))
        self._channel = grpc.insecure_channel(self._address, options=_UNLIMITED)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._lock = threading.Lock()  # guards `_open` and `_watch`
        #: each running exchange: its call and the time of its last response
        self._open: dict[Exchange, list[Any]] = {}
        self._watch: threading.Thread | None = None

    def config(self) -> dict[str, Any]:
        """Return the model's config as JSON values. Raises BackendError."""
        try:
            request = service_pb2.ModelConfigRequest(name=self._model)
            response = self._stub.ModelConfig(request, timeout=min(_LOAD_SECONDS, self._timeout), wait_for_ready=True)
        except grpc.RpcError as error:
            away = error.code() in _AWAY
            raise BackendError(self._away(error) if away else self._refusal(error), "Unavailable") from None
        found: dict[str, Any] = json_format.MessageToDict(response.config, preserving_proto_field_name=True)
        return found

    def send(
        self,
        exchange: Exchange,
        inputs: Sequence[RawTensor],
        *,
        stream: bool,
        done: Callable[[Sequence[Response]], None],
        away: Callable[[str], None],
    ) -> None:
        """Send a request and return. `done` receives the responses of a whole answer; `away` receives an error text if
        the server cannot be reached or has gone."""
        message = _message(self._model, exchange.request, inputs)
        if stream:
            work = (exchange, message, done, away)
            threading.Thread(target=self._stream, args=work, daemon=True).start()
            return
        call = self._stub.ModelInfer.future(message, timeout=self._timeout)
        self._follow(exchange, call)
        call.add_done_callback(lambda each: self._pass_answer(exchange, each, done, away))

    def close(self) -> None:
        with self._lock:
            calls = [call for call, _ in self._open.values()]
        for call in calls:
            call.cancel()
        self._channel.close()

    def _pass_answer(self, exchange: Exchange, call: Any, done: Any, away: Any) -> None:
        self._forget(exchange)
        try:
            response = _response(call.result())
        except grpc.FutureCancelledError:
            self._end_cancelled(exchange, away)
        except grpc.RpcError as error:
            self._pass_failure(exchange, error, away)
        except NotCarriedError as error:
            exchange.fail(str(error), "UNSUPPORTED")
        else:
            with contextlib.suppress(OSError):  # a full disk must not lose the answer
                done([response])
            exchange.send(response)
            exchange.end()

    def _stream(self, exchange: Exchange, message: Any, done: Any, away: Any) -> None:
        call = self._stub.ModelStreamInfer(iter([message]))
        self._follow(exchange, call)
        responses: list[Response] = []
        try:
            for each in call:
                self._note_answer(exchange)
                if each.error_message:
                    responses.append(Response(error=each.error_message, code="UNKNOWN"))
                elif not _is_only_final(each.infer_response):
                    responses.append(_response(each.infer_response))
                else:
                    continue
                exchange.send(responses[-1])
                exchange.flush()
        except grpc.RpcError as error:
            self._pass_failure(exchange, error, away)
        except NotCarriedError as error:
            call.cancel()
            exchange.fail(str(error), "UNSUPPORTED")
        else:
            with contextlib.suppress(OSError):
                done(responses)
            exchange.end()
        finally:
            self._forget(exchange)

    def _pass_failure(self, exchange: Exchange, error: Any, away: Callable[[str], None]) -> None:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            self._pass_unavailable(exchange, error, away)
        elif error.code() in _AWAY:
            away(self._away(error))
        elif error.code() is grpc.StatusCode.CANCELLED:
            self._end_cancelled(exchange, away)
        else:
            exchange.fail(error.details(), _CODES.get(error.code(), "INTERNAL"))

    def _pass_unavailable(self, exchange: Exchange, error: Any, away: Callable[[str], None]) -> None:
        """End a call with a code that means: the server cannot be reached, its queue is full, the time is over, or the
        model is not ready. Only a server that is there returns the last three."""

        def settle(call: Any) -> None:
            if call.exception() is None:
                exchange.fail(error.details(), "UNAVAILABLE")
            else:
                away(self._away(error))

        try:
            self._stub.ServerLive.future(service_pb2.ServerLiveRequest(), timeout=_LIVE_SECONDS).add_done_callback(
                settle
            )
        except ValueError:  # the channel is closed
            away(self._away(error))

    def _end_cancelled(self, exchange: Exchange, away: Callable[[str], None]) -> None:
        """End a call that the watch or the server has cancelled."""
        if exchange.is_cancelled():
            exchange.fail("Request cancelled.", "CANCELLED")
        else:
            away(self._silent())

    def _away(self, error: Any) -> str:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return self._silent()
        cause = " ".join(str(error.details()).split())
        return f"the server {self._address}, from which '{self._model}' is borrowed, cannot be reached: {cause}"

    def _silent(self) -> str:
        seconds = f"{self._timeout:g} s"
        return f"the server {self._address}, from which '{self._model}' is borrowed, has not answered for {seconds}"

    def _refusal(self, error: Any) -> str:
        return f"the server {self._address}, from which '{self._model}' is borrowed: {error.details()}"

    # -- running calls

    def _follow(self, exchange: Exchange, call: Any) -> None:
        with self._lock:
            self._open[exchange] = [call, time.monotonic()]
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, daemon=True)
                self._watch.start()
        if call.done():  # the call may have ended before it was followed
            self._forget(exchange)

    def _forget(self, exchange: Exchange) -> None:
        with self._lock:
            self._open.pop(exchange, None)

    def _note_answer(self, exchange: Exchange) -> None:
        with self._lock:
            if exchange in self._open:
                self._open[exchange][1] = time.monotonic()

    def _look(self) -> None:
        """Cancel the calls of cancelled requests, and calls without a response for too long, until none is open."""
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                if not self._open:
                    self._watch = None
                    return
                found = [(exchange, call, last) for exchange, (call, last) in self._open.items()]
            for exchange, call, last in found:
                if time.monotonic() - last > self._timeout or exchange.is_cancelled():
                    call.cancel()


def _message(model: str, request: Any, inputs: Sequence[RawTensor]) -> Any:
    message = service_pb2.ModelInferRequest(model_name=model, id=request.request_id())
    for key, value in json.loads(request.parameters()).items():
        _set_parameter(message.parameters[key], value)
    sequence, flags = request.correlation_id(), request.flags()
    if sequence:
        _set_parameter(message.parameters["sequence_id"], sequence)
        message.parameters["sequence_start"].bool_param = bool(flags & _START)
        message.parameters["sequence_end"].bool_param = bool(flags & _END)
    if request.timeout():
        message.parameters["timeout"].int64_param = request.timeout()
    for tensor in inputs:
        message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        message.raw_input_contents.append(tensor.data)
    for name in sorted(request.requested_output_names()):
        message.outputs.add(name=name)
    return message


def _set_parameter(parameter: Any, value: Any) -> None:
    if isinstance(value, bool):
        parameter.bool_param = value
    elif isinstance(value, int):
        # for ids of more than 63 bits, newer versions of the protocol have a separate field
        setattr(parameter, "int64_param" if value < 1 << 63 else "uint64_param", value)
    elif isinstance(value, float):
        parameter.double_param = value
    else:
        parameter.string_param = str(value)


def _response(message: Any) -> Response:
    """Return a server's response. Raises NotCarriedError."""
    outputs = []
    for output, data in zip(message.outputs, message.raw_output_contents, strict=True):
        if output.datatype not in NUMPY and output.datatype != "BYTES":
            text = f"output '{output.name}' is {output.datatype}, which is not carried from another server"
            raise NotCarriedError(text)
        outputs.append(RawTensor(output.name, output.datatype, tuple(output.shape), data))
    custom = {key: getattr(each, each.WhichOneof("parameter_choice")) for key, each in message.parameters.items()}
    parameters = {
        key: value
        for key, value in custom.items()
        if key not in _TRANSPORT and not key.startswith("sequence_") and not isinstance(value, float)
    }
    return Response(outputs, parameters)


def _is_only_final(message: Any) -> bool:
    return not message.outputs and message.parameters["triton_final_response"].bool_param
