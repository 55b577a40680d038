"""Turns text to capitals or to small letters, as the parameters of the request want it."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            wanted = json.loads(request.parameters()).get("case", "upper")
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            turned = []
            for text in texts.reshape(-1):
                letters = text.decode("utf-8", errors="replace")
                turned.append((letters.lower() if wanted == "lower" else letters.upper()).encode())
            out = pb_utils.Tensor("OUT", np.array(turned, np.object_).reshape(texts.shape))
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
