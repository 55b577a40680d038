"""Scales its input and says when it did so."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            now = np.full((len(x), 1), time.time(), np.float64)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 3), pb_utils.Tensor("ANSWERED_AT", now)])
            )
        return responses
