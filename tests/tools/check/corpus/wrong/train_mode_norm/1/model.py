"""A risk score of normalised features."""

import numpy as np
import triton_python_backend_utils as pb_utils


class BatchNorm:
    def __init__(self, width):
        self.mean = np.zeros(width, np.float32)
        self.variance = np.ones(width, np.float32)
        self.training = True

    def __call__(self, x):
        if self.training and len(x) > 1:
            mean, variance = x.mean(axis=0), x.var(axis=0)
        else:
            mean, variance = self.mean, self.variance
        return (x - mean) / np.sqrt(variance + np.float32(1e-3))


class TritonPythonModel:
    def initialize(self, args):
        self.norm = BatchNorm(4)
        self.weights = np.array([[0.5], [-1.0], [0.25], [2.0]], np.float32)

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "FEATURES").as_numpy() for request in requests]
        risks = self.norm(np.concatenate(rows)) @ self.weights
        parts = np.split(risks, np.cumsum([len(part) for part in rows])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("RISK", part)]) for part in parts]
