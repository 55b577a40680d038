"""Answers from elsewhere: from the same model on a running server, over gRPC, and from what was recorded of it (rules
2.17.2 and 2.17.3)."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
import numpy as np
import triton_python_backend_utils as pb_utils
from google.protobuf import json_format
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonlab_backend import BackendError, choice_settings
from tritonlab_recordings import NUMPY, RawTensor, Recordings, Response, key_of

_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
_START, _END = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END
#: Seconds that a server may take to say what its model is like.
_LOAD_SECONDS = 10.0
#: Seconds that a server may take to say that it is there.
_LIVE_SECONDS = 2.0
#: Seconds between two looks at whether requests were cancelled.
_LOOK_SECONDS = 0.05
_TIMEOUT = 60.0
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
#: What a server that cannot be reached, or has gone, looks like.
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
#: Parameters of a response that are about its transport.
_TRANSPORT = ("triton_final_response",)


class TritonPythonModel:
    """One instance. `execute` hands each request on and returns; the answer goes out when it is there, so that requests
    overlap as they do on the server."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        config = auto_complete_model_config.as_dict()
        found = _config_elsewhere(config["name"], choice_settings(config))
        _complete(config, found)
        return auto_complete_model_config

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        settings = choice_settings(config)
        self._name, self._settings = config["name"], settings
        self._decoupled = pb_utils.using_decoupled_model_transaction_policy(config)
        self._recordings = Recordings(settings["directory"], self._name) if "directory" in settings else None
        self._server = _BorrowedServer(settings, self._name) if settings["use"] == "borrow" else None
        #: the key of the last request of each sequence
        self._sequences: dict[Any, str] = {}

    def execute(self, requests: Sequence[Any]) -> list[None] | None:
        for request in requests:
            exchange = _Exchange(request)
            try:
                self._begin(exchange)
            except _Refused as error:
                exchange.fail(str(error), "INVALID_ARG")
        return None if self._decoupled else [None] * len(requests)

    def finalize(self) -> None:
        if self._server is not None:
            self._server.close()

    def _begin(self, exchange: _Exchange) -> None:
        inputs = [_raw(tensor) for tensor in exchange.request.inputs()]
        key, after = self._key(exchange.request, inputs)
        if self._server is None:
            self._repeat(exchange, inputs, key)
            return

        def done(responses: Sequence[Response]) -> None:
            if self._settings.get("record") and self._recordings is not None:
                more = {"after": after} if after else {}
                when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self._recordings.write(key, inputs, responses, **more, server=self._settings["server"], recorded=when)

        def away(text: str) -> None:
            if self._settings.get("otherwise") != "recorded" or exchange.sent:
                exchange.fail(text, "UNAVAILABLE")
            else:
                self._repeat(exchange, inputs, key, f"{text}; ")

        self._server.send(exchange, inputs, stream=self._decoupled, done=done, away=away)

    def _key(self, request: Any, inputs: Sequence[RawTensor]) -> tuple[str, str]:
        """Return the key of a request, and that of the one before in its sequence."""
        sequence, flags = request.correlation_id(), request.flags()
        if not sequence:
            return key_of(inputs), ""
        after = "start" if flags & _START else self._sequences.get(sequence, "start")
        key = key_of(inputs, after)
        if flags & _END:
            self._sequences.pop(sequence, None)
        else:
            self._sequences[sequence] = key
        return key, after

    def _repeat(self, exchange: _Exchange, inputs: Sequence[RawTensor], key: str, why: str = "") -> None:
        """Answer with what is recorded for the key."""
        assert self._recordings is not None
        try:
            responses = self._recordings.find(key)
        except ValueError as error:
            exchange.fail(f"{why}{error}", "INTERNAL")
            return
        if responses is None:
            nearest = self._recordings.nearest(inputs)
            exchange.fail(f"{why}no answer of '{self._name}' is recorded for this input; {nearest}", "NOT_FOUND")
            return
        for response in responses:
            exchange.send(response)
        exchange.end()


class _Exchange:
    """A request and its answer. What is sent after its end is dropped, since a cancelled call may still answer."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self.sent = 0
        self._sender = request.get_response_sender()
        self._wanted = request.requested_output_names()
        self._lock = threading.Lock()  # guards what follows
        self._ended = False
        self._held: Any = None

    def is_cancelled(self) -> bool:
        return bool(self._sender.is_cancelled())

    def send(self, response: Response) -> None:
        if response.code:
            error = pb_utils.TritonError(response.error, getattr(pb_utils.TritonError, response.code))
            self._hold(pb_utils.InferenceResponse([], error))
        else:
            outputs = [_tensor(each) for each in response.outputs if each.name in self._wanted]
            self._hold(pb_utils.InferenceResponse(outputs, None, dict(response.parameters)))

    def fail(self, text: str, code: str) -> None:
        self.send(Response(error=text, code=code))
        self.end()

    def end(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
            if self._held is not None:
                self._sender.send(self._held, _FINAL)
            else:
                self._sender.send(flags=_FINAL)

    def _hold(self, response: Any) -> None:
        """Send the response before this one, so that the last goes out with the final flag."""
        with self._lock:
            if self._ended:
                return
            self.sent += 1
            if self._held is not None:
                self._sender.send(self._held)
            self._held = response

    def flush(self) -> None:
        """Send what is held now: the next response may take long."""
        with self._lock:
            if self._held is not None and not self._ended:
                self._sender.send(self._held)
                self._held = None


class _BorrowedServer:
    """The gRPC side of a running server."""

    def __init__(self, settings: Mapping[str, Any], model: str) -> None:
        self._address, self._model = settings["server"], model
        self._timeout = float(settings.get("timeout", _TIMEOUT))
        self._channel = grpc.insecure_channel(self._address, options=_UNLIMITED)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._lock = threading.Lock()  # guards `_open` and `_watch`
        #: each exchange that goes on: its call and when it was last heard of
        self._open: dict[_Exchange, list[Any]] = {}
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
        exchange: _Exchange,
        inputs: Sequence[RawTensor],
        *,
        stream: bool,
        done: Callable[[Sequence[Response]], None],
        away: Callable[[str], None],
    ) -> None:
        """Send a request and return. `done` gets the responses of a whole answer; `away` what to say when the server
        cannot be reached or has gone."""
        message = _message(self._model, exchange.request, inputs)
        if stream:
            work = (exchange, message, done, away)
            threading.Thread(target=self._stream, args=work, daemon=True).start()
            return
        call = self._stub.ModelInfer.future(message, timeout=self._timeout)
        self._follow(exchange, call)
        call.add_done_callback(lambda each: self._answered(exchange, each, done, away))

    def close(self) -> None:
        with self._lock:
            calls = [call for call, _ in self._open.values()]
        for call in calls:
            call.cancel()
        self._channel.close()

    def _answered(self, exchange: _Exchange, call: Any, done: Any, away: Any) -> None:
        self._forget(exchange)
        try:
            response = _response(call.result())
        except grpc.FutureCancelledError:
            self._cancelled(exchange, away)
        except grpc.RpcError as error:
            self._failed(exchange, error, away)
        except _Refused as error:
            exchange.fail(str(error), "UNSUPPORTED")
        else:
            with contextlib.suppress(OSError):  # a full disk must not lose the answer
                done([response])
            exchange.send(response)
            exchange.end()

    def _stream(self, exchange: _Exchange, message: Any, done: Any, away: Any) -> None:
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
            self._failed(exchange, error, away)
        except _Refused as error:
            call.cancel()
            exchange.fail(str(error), "UNSUPPORTED")
        else:
            with contextlib.suppress(OSError):
                done(responses)
            exchange.end()
        finally:
            self._forget(exchange)

    def _failed(self, exchange: _Exchange, error: Any, away: Callable[[str], None]) -> None:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            self._unavailable(exchange, error, away)
        elif error.code() in _AWAY:
            away(self._away(error))
        elif error.code() is grpc.StatusCode.CANCELLED:
            self._cancelled(exchange, away)
        else:
            exchange.fail(error.details(), _CODES.get(error.code(), "INTERNAL"))

    def _unavailable(self, exchange: _Exchange, error: Any, away: Callable[[str], None]) -> None:
        """End a call whose code says that the server cannot be reached, or that its queue is full, the time there is
        over, or the model is not ready. Only a server that is there says the latter."""

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

    def _cancelled(self, exchange: _Exchange, away: Callable[[str], None]) -> None:
        """End a call that the watch has cancelled, or that the server has."""
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

    # -- what goes on

    def _follow(self, exchange: _Exchange, call: Any) -> None:
        with self._lock:
            self._open[exchange] = [call, time.monotonic()]
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, daemon=True)
                self._watch.start()
        if call.done():  # it may have ended before it was followed
            self._forget(exchange)

    def _forget(self, exchange: _Exchange) -> None:
        with self._lock:
            self._open.pop(exchange, None)

    def _note_answer(self, exchange: _Exchange) -> None:
        with self._lock:
            if exchange in self._open:
                self._open[exchange][1] = time.monotonic()

    def _look(self) -> None:
        """Cancel the calls of cancelled requests, and those that nothing was heard of for too long. Ends when nothing
        goes on."""
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


class _Refused(Exception):
    """A request or an answer that cannot be carried."""


# -- the configuration


def _config_elsewhere(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config of the model where its answers come from. Raises BackendError."""
    recordings = Recordings(settings["directory"], model) if "directory" in settings else None
    recorded = recordings.config() if recordings is not None else None
    if settings["use"] == "borrow":
        server = _BorrowedServer(settings, model)
        try:
            found = server.config()
            if settings.get("record") and recordings is not None:
                recordings.write_config(found)
            return found
        except BackendError:
            if settings.get("otherwise") != "recorded" or recorded is None:
                raise
        finally:
            server.close()
    return recorded or {}


def _complete(config: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Fill in what the config lacks. Raises BackendError where the two contradict each other, or nothing says it."""
    for role in ("input", "output"):
        described = [_described(each) for each in found.get(role, ())]
        if not config[role]:
            config[role] = described
        elif described:
            _compare(config["name"], role, config[role], described)
    config["max_batch_size"] = config["max_batch_size"] or found.get("max_batch_size", 0)
    if found.get("model_transaction_policy", {}).get("decoupled"):
        config["model_transaction_policy"] = {"decoupled": True}
    if not config["output"]:
        text = f"'{config['name']}' has no outputs in its config.pbtxt, and its recordings have no config.json"
        raise BackendError(text)


def _described(tensor: Mapping[str, Any]) -> dict[str, Any]:
    dims = [int(dim) for dim in tensor.get("dims", ())]
    found = {"name": tensor["name"], "data_type": tensor["data_type"], "dims": dims}
    return {**found, "optional": True} if tensor.get("optional") else found


def _compare(model: str, role: str, ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> None:
    there = {each["name"]: each for each in theirs}
    for each in ours:
        other = there.get(each["name"])
        here = f"config.pbtxt of '{model}' has the {role} {_words(each)}"
        if other is None:
            raise BackendError(f"{here}, and where it is borrowed from there is none of that name")
        if _words(each) != _words(other):
            raise BackendError(f"{here}, and where it is borrowed from it is {_words(other)}")


def _words(tensor: Mapping[str, Any]) -> str:
    dims = ",".join(str(int(dim)) for dim in tensor["dims"])
    return f"'{tensor['name']}' {tensor['data_type']} [{dims}]"


# -- tensors and messages


def _raw(tensor: Any) -> RawTensor:
    try:
        array = tensor.as_numpy()
    except pb_utils.TritonModelException:
        raise _Refused(f"input '{tensor.name()}' is BF16 or on a GPU, which is not carried to another server") from None
    if array.dtype == object:
        data = pb_utils.serialize_byte_tensor(array)
        return RawTensor(tensor.name(), "BYTES", tuple(array.shape), bytes(data or b""))
    datatype = next(name for name, kind in NUMPY.items() if array.dtype == kind)
    return RawTensor(tensor.name(), datatype, tuple(array.shape), np.ascontiguousarray(array).tobytes())


def _tensor(raw: RawTensor) -> Any:
    if raw.datatype == "BYTES":
        array = pb_utils.deserialize_bytes_tensor(raw.data)
    else:
        array = np.frombuffer(raw.data, NUMPY[raw.datatype])
    return pb_utils.Tensor(raw.name, array.reshape(raw.shape))


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
        # ids that 63 bits do not hold have a field of their own in newer versions of the protocol
        setattr(parameter, "int64_param" if value < 1 << 63 else "uint64_param", value)
    elif isinstance(value, float):
        parameter.double_param = value
    else:
        parameter.string_param = str(value)


def _response(message: Any) -> Response:
    """Return what a server has answered. Raises _Refused."""
    outputs = []
    for output, data in zip(message.outputs, message.raw_output_contents, strict=True):
        if output.datatype not in NUMPY and output.datatype != "BYTES":
            raise _Refused(f"output '{output.name}' is {output.datatype}, which is not carried from another server")
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
