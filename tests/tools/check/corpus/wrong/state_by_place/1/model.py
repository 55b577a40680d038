"""The running average of the frames of a video."""

import numpy as np
import triton_python_backend_utils as pb_utils


def control(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])


class TritonPythonModel:
    def initialize(self, args):
        self.sums = np.zeros((4, 2), np.float32)
        self.counts = np.zeros(4, np.int64)

    def execute(self, requests):
        responses = []
        for slot, request in enumerate(requests):
            frame = pb_utils.get_input_tensor_by_name(request, "FRAME").as_numpy()
            if control(request, "START"):
                self.sums[slot], self.counts[slot] = 0, 0
            self.sums[slot] += frame[0]
            self.counts[slot] += 1
            average = (self.sums[slot] / max(self.counts[slot], 1)).astype(np.float32).reshape(1, 2)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("AVERAGE", average)]))
        return responses
