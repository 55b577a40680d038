"""Pictures made ready for a network: scaled, and the channels first. The array that is sent is a view."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            image = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
            scaled = image.astype(np.float32) / np.float32(127.5) - 1
            prepared = scaled.transpose(0, 3, 1, 2)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("PREPARED", prepared)]))
        return responses
