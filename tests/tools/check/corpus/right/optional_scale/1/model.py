"""A linear map whose factor and offset may be left out."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def optional(self, request, name, default):
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        return np.float32(default) if tensor is None else tensor.as_numpy()

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            with np.errstate(all="ignore"):
                y = x * self.optional(request, "SCALE", 1) + self.optional(request, "SHIFT", 0)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", y.astype(np.float32))]))
        return responses
