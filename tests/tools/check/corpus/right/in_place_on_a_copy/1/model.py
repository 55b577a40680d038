"""A picture with its mean taken off, in a copy, and the largest value that the picture had."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            image = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
            centred = image.astype(np.float64)
            with np.errstate(all="ignore"):
                centred -= centred.mean(axis=1, keepdims=True)
                centred = centred.astype(np.float32)
            largest = image.max(axis=1, keepdims=True)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("CENTRED", centred), pb_utils.Tensor("LARGEST", largest)])
            )
        return responses
