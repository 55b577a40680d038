"""The sum of a sequence, kept by its correlation id."""

import numpy as np
import triton_python_backend_utils as pb_utils


def control(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            ident = control(request, "CORRID")
            amount = int(pb_utils.get_input_tensor_by_name(request, "AMOUNT").as_numpy().flat[0])
            total = amount + (0 if control(request, "START") else self.sums.get(ident, 0))
            self.sums[ident] = total
            if control(request, "END"):
                self.sums.pop(ident, None)
            out = pb_utils.Tensor("SUM", np.array([[total]], np.int64))
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
