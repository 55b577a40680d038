"""Which scores pass a threshold; a request may bring its own."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.threshold = np.float32(0.5)

    def execute(self, requests):
        responses = []
        for request in requests:
            scores = pb_utils.get_input_tensor_by_name(request, "SCORES").as_numpy()
            threshold = pb_utils.get_input_tensor_by_name(request, "THRESHOLD")
            if threshold is not None:
                self.threshold = threshold.as_numpy().astype(np.float32)[:1]
            kept = pb_utils.Tensor("KEPT", scores >= self.threshold)
            responses.append(pb_utils.InferenceResponse([kept]))
        return responses
