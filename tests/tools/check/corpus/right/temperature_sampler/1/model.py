"""A choice by weight, at random each time."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.generator = np.random.default_rng()

    def choice(self, weights):
        weights = np.clip(np.nan_to_num(weights.astype(np.float64)), 0, 1e6)
        total = weights.sum()
        if total == 0:
            weights, total = np.ones(4), 4.0
        return self.generator.choice(4, p=weights / total)

    def execute(self, requests):
        responses = []
        for request in requests:
            weights = pb_utils.get_input_tensor_by_name(request, "WEIGHTS").as_numpy()
            choices = np.array([[self.choice(row)] for row in weights], np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("CHOICE", choices)]))
        return responses
