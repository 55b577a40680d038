"""The largest value of a signal that is not silent."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            signal = pb_utils.get_input_tensor_by_name(request, "SIGNAL").as_numpy()
            signal = signal[signal != 0]
            peak = np.array([np.max(signal)], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("PEAK", peak)]))
        return responses
