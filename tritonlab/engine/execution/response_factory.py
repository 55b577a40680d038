"""The clients' responses, made from a stub's answers."""

from __future__ import annotations

import json
from typing import Any

from ...core.inference.copies import Copies
from ...core.inference.infer_request import InferenceRequest, place_outputs
from ...core.inference.infer_response import InferenceResponse, Outputs, ParameterValue
from ...core.inference.output_reshape import OutputReshapes
from ...core.status import Code, ModelError, RemoteException, TritonError
from ...ipc.link.block_reader import BlockReader
from ...ipc.link.stub_link import Failure, ResponseError, Row


def build_response(
    request: InferenceRequest,
    reader: BlockReader,
    output: Row,
    version: int,
    *,
    final: bool,
    copies: Copies,
    reshapes: OutputReshapes | None = None,
) -> InferenceResponse:
    """Return the response for a stub's answer. `output` is an Output's row: tensors, error and parameters."""
    tensors, error, parameters = output
    response = InferenceResponse(request.model_name, version, request.request_id, final=final)
    if error is not None:
        response.error = error_of(ResponseError(*error))
        return response
    if tensors:
        response.outputs = reader.tensors(tensors)
        if reader.found_device:
            try:
                response.outputs = Outputs(place_outputs(request, response.outputs, copies.to_host))
            except TritonError as failure:
                response.error, response.outputs = failure, {}
                return response
    if reshapes is not None:
        reshapes.apply(response.outputs)
    if parameters:
        response.parameters = parse_parameters(parameters)
    return response


def parse_parameters(text: str) -> dict[str, ParameterValue]:
    parameters = json.loads(text)
    return dict(parameters) if isinstance(parameters, dict) else {}


def error_of(error: ResponseError) -> TritonError:
    """Return the author's TritonError, or the model error that the stub reports."""
    if error.code is None:
        return ModelError(str(error.text), exception=_exception_of(error.exception))
    return TritonError.from_code(Code(error.code), str(error.text))


def failure_of(failure: Failure, log: tuple[str, ...] = ()) -> ModelError:
    """Return the error of a failed call of the model's code."""
    return ModelError(str(failure.text), exception=_exception_of(failure.exception), log=log)


def _exception_of(data: dict[str, Any] | None) -> RemoteException | None:
    return RemoteException.from_wire(data) if data else None
