"""Lengths of texts, long ones first inside, in the order of the requests outside."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1) for request in requests]
        texts = [text for row in rows for text in row]
        order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        lengths = np.zeros((len(texts), 1), np.int32)
        for index in order:
            lengths[index] = len(texts[index].decode("utf-8", "replace"))
        parts = np.split(lengths, np.cumsum([len(row) for row in rows])[:-1])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("LENGTH", part)]) for part in parts]
