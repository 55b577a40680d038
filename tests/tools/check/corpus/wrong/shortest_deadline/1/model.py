"""Doubles its input, unless the client has no time to wait for the slow path."""

import triton_python_backend_utils as pb_utils

COST_MICROSECONDS = 500


class TritonPythonModel:
    def execute(self, requests):
        deadlines = [request.timeout() for request in requests if request.timeout() > 0]
        if deadlines and min(deadlines) < COST_MICROSECONDS:
            late = pb_utils.TritonError("the deadline is too short", pb_utils.TritonError.UNAVAILABLE)
            return [pb_utils.InferenceResponse(output_tensors=[], error=late) for _ in requests]
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + x)]))
        return responses
