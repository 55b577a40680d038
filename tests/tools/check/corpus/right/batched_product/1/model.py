"""Two layers over the whole batch at once: the order of float32 sums differs with the size of the batch."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        generator = np.random.default_rng(5)
        self.first = generator.normal(size=(96, 96)).astype(np.float32)
        self.second = generator.normal(size=(96, 24)).astype(np.float32)

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        with np.errstate(all="ignore"):
            y = np.tanh(np.concatenate(rows) @ self.first / 30) @ self.second
        parts = np.split(y, np.cumsum([len(row) for row in rows])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", part)]) for part in parts]
