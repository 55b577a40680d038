"""Square roots. A request with negative numbers or NaN is refused, and it alone."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            if not (x >= 0).all():
                error = pb_utils.TritonError("X must not be negative or NaN", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=error))
                continue
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("ROOT", np.sqrt(x))]))
        return responses
