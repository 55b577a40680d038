"""A filter that works in a buffer made in advance."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.work = np.empty((8, 4), np.float32)

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            work = self.work[: len(x)]
            np.multiply(x, np.float32(0.5), out=work)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", work.copy())]))
        return responses
