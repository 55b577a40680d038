"""Texts backwards, letter by letter; any number of them in a row, none too."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            turned = np.empty(texts.shape, dtype=np.object_)
            for index, text in np.ndenumerate(texts):
                turned[index] = text.decode("utf-8", errors="replace")[::-1].encode()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("REVERSED", turned)]))
        return responses
