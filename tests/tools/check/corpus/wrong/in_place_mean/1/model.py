"""A picture with its mean taken off, and the largest value that the picture had."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def centre(self, request):
        image = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
        image -= image.mean(axis=1, keepdims=True)
        return image

    def execute(self, requests):
        responses = []
        for request in requests:
            centred = self.centre(request)
            image = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
            largest = np.max(image, axis=1, keepdims=True)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("CENTRED", centred), pb_utils.Tensor("RANGE", largest)])
            )
        return responses
