"""The intersection of two masks, also packed into a byte."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "B").as_numpy()
            both = a & b
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("BOTH", both), pb_utils.Tensor("PACKED", np.packbits(both, axis=1))]
                )
            )
        return responses
