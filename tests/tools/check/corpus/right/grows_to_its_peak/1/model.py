"""Means over a ring of buffers; the ring is filled by the first hundred requests."""

import numpy as np
import triton_python_backend_utils as pb_utils

RING = 100


class TritonPythonModel:
    def initialize(self, args):
        self.ring = [None] * RING
        self.next = 0

    def buffer(self):
        slot = self.next % RING
        self.next += 1
        if self.ring[slot] is None:
            self.ring[slot] = np.zeros((8, 1024), np.float64)
        return self.ring[slot]

    def execute(self, requests):
        responses = []
        for request in requests:
            frame = pb_utils.get_input_tensor_by_name(request, "FRAME").as_numpy()
            buffer = self.buffer()
            buffer[: len(frame), :64] = frame
            mean = buffer[: len(frame), :64].mean(axis=1, keepdims=True).astype(np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("MEAN", mean)]))
        return responses
