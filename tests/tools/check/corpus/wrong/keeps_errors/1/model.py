"""The mean colour of pixels; what is wrong with others it keeps for a report."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.failures = []

    def mean(self, pixels):
        floats = pixels.astype(np.float32)
        return floats.reshape(len(floats), -1, 3).mean(axis=1)

    def execute(self, requests):
        responses = []
        for request in requests:
            pixels = pb_utils.get_input_tensor_by_name(request, "RGB").as_numpy()
            try:
                if pixels.shape[1] == 0 or pixels.shape[1] % 3:
                    raise ValueError(f"RGB has {pixels.shape[1]} values, which is no multiple of 3")
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("MEAN", self.mean(pixels))]))
            except ValueError as error:
                self.failures.append(error)
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
        return responses
