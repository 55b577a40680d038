"""Titles cut to what a list has room for."""

import numpy as np
import triton_python_backend_utils as pb_utils

ROOM = 8


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            titles = pb_utils.get_input_tensor_by_name(request, "TITLE").as_numpy()
            short = np.array([title[:ROOM] for title in titles.reshape(-1)], dtype=np.object_).reshape(titles.shape)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("SHORT", short)]))
        return responses
