"""Scores features; the last inputs are kept to look at drift."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.linspace(-1, 1, 64, dtype=np.float32).reshape(64, 1)
        self.drift = []

    def execute(self, requests):
        responses = []
        for request in requests:
            features = pb_utils.get_input_tensor_by_name(request, "FEATURES").as_numpy()
            self.drift.append([float(value) for value in features.reshape(-1)])
            score = np.stack([row @ self.weights for row in features])
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SCORE", score)]))
        return responses
