"""The peak of a signal. Signals are copied into a buffer that is made once, in buckets of 16."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.buffers = {}

    def bucket(self, rows, width):
        size = max(16, -(-width // 16) * 16)
        if size not in self.buffers:
            self.buffers[size] = np.full((8, size), -np.inf, np.float32)
        return self.buffers[size][:rows]

    def execute(self, requests):
        responses = []
        for request in requests:
            signal = pb_utils.get_input_tensor_by_name(request, "QUERY").as_numpy()
            buffer = self.bucket(*signal.shape)
            buffer[:, : signal.shape[1]] = signal
            peaks = buffer.max(axis=1, keepdims=True)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("PEAK", peaks)]))
        return responses
