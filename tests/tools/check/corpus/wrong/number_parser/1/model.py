"""Prices written as text, as numbers."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            values = [float(text.decode("utf-8").replace(",", "")) for text in texts.reshape(-1)]
            value = np.array(values, np.float64).clip(-3e38, 3e38).astype(np.float32).reshape(texts.shape)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("VALUE", value)]))
        return responses
