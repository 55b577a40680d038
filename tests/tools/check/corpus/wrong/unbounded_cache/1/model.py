"""Vectors of texts, remembered by text."""

import zlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.known = {}

    def vector(self, text):
        if text not in self.known:
            self.known[text] = np.random.default_rng(zlib.crc32(text)).random(32).astype(np.float32)
        return self.known[text]

    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
            vectors = np.stack([self.vector(text) for text in texts])
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("VECTOR", vectors)]))
        return responses
