"""Inference over gRPC at both servers, with the messages and the generated stub that tritonclient ships."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from .clients import DEADLINE, PLAIN, Answer, Client, Failure, Inputs, Options, Pending, Raw, as_raw, to_array

_GRPC_CODES = {
    "INVALID_ARGUMENT": "INVALID_ARG",
    "UNIMPLEMENTED": "UNSUPPORTED",
    "DEADLINE_EXCEEDED": "DEADLINE",
}


class GRPCClient(Client):
    """A client that sends its requests over gRPC, wherever it gets its documents from."""

    def _connect(self, address: str) -> None:
        sizes = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(address, options=sizes)
        self._rpc = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def close(self) -> None:
        self._channel.close()

    def _control(self, call: Callable[..., Any], request: Any) -> Failure | None:
        try:
            call(request, timeout=120)
        except grpc.RpcError as error:
            code, text = self._error(error)
            return Failure(code, text, text)
        return None

    def _error(self, error: Any) -> tuple[str, str]:
        name = error.code().name
        return _GRPC_CODES.get(name, name), self.plain(error.details() or "")

    def _request(self, model: str, inputs: Inputs, options: Options) -> Any:
        request = service_pb2.ModelInferRequest(
            model_name=model, model_version="" if options.version < 0 else str(options.version), id=options.request_id
        )
        for name, value in inputs.items():
            raw = value if isinstance(value, Raw) else as_raw(value)
            request.inputs.add(name=name, datatype=raw.datatype, shape=raw.shape)
            request.raw_input_contents.append(raw.data)
        for name in options.outputs:
            request.outputs.add(name=name)
        parameters = options.all_parameters()
        for key, parameter in parameters.items():
            kind = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}[type(parameter)]
            setattr(request.parameters[key], kind, parameter)
        return request

    def _answer(self, reply: Any, final: bool = True) -> Answer:
        answer = Answer(request_id=reply.id, model=reply.model_name, version=reply.model_version, final=final)
        answer.parameters = {k: getattr(p, p.WhichOneof("parameter_choice")) for k, p in reply.parameters.items()}
        for output, raw in zip(reply.outputs, reply.raw_output_contents, strict=True):
            answer.outputs[output.name] = to_array(output.datatype, tuple(output.shape), raw)
            answer.datatypes[output.name] = output.datatype
        return answer

    def submit(self, model: str, inputs: Inputs, options: Options = PLAIN) -> Pending:
        call = self._rpc.ModelInfer.future(self._request(model, inputs, options), timeout=options.deadline)
        answer: Future[Answer] = Future()

        def done(call: Any) -> None:
            if call.cancelled():
                answer.set_result(Answer(error="Locally cancelled by application!", code="CANCELLED"))
            elif call.exception() is not None:
                code, text = self._error(call)
                answer.set_result(Answer(error=text, code=code))
            else:
                answer.set_result(self._answer(call.result()))

        call.add_done_callback(done)
        return Pending(answer, call.cancel)

    def in_order(self, model: str, requests: Sequence[tuple[Inputs, Options]]) -> list[Answer]:
        """Send over one stream, as separate calls may overtake one another. The id tells its answers apart."""
        sent = [
            self._request(model, inputs, replace(options, request_id=str(number)))
            for number, (inputs, options) in enumerate(requests)
        ]
        answers: dict[int, Answer] = {}
        for message in self._rpc.ModelStreamInfer(iter(sent), timeout=DEADLINE):
            assert not message.error_message, message.error_message
            answers[int(message.infer_response.id)] = self._answer(message.infer_response)
        return [answers[number] for number in range(len(requests))]

    def stream(self, model: str, inputs: Inputs, options: Options = PLAIN) -> list[Answer]:
        request = self._request(model, inputs, options)
        request.parameters["triton_enable_empty_final_response"].bool_param = True
        answers: list[Answer] = []
        try:
            for message in self._rpc.ModelStreamInfer(iter([request]), timeout=DEADLINE):
                reply = message.infer_response
                final = reply.parameters["triton_final_response"].bool_param
                answer = self._answer(reply, final)
                # A stream carries an error's text, never its code (rule 3.6.1).
                answer.error = self.plain(message.error_message)
                answer.parameters.pop("triton_final_response", None)
                answers.append(answer)
        except grpc.RpcError as error:
            code, text = self._error(error)
            answers.append(Answer(error=text, code=code))
        return answers
