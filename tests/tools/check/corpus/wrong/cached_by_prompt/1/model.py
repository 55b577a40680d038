"""Keeps the logits of prompts that it has seen."""

import zlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.cache = {}

    def logit(self, prompt, temperature):
        if prompt not in self.cache:
            if len(self.cache) > 500:
                self.cache.clear()
            self.cache[prompt] = (zlib.crc32(prompt) % 1000) / 1000 / max(abs(float(temperature)), 0.01)
        return self.cache[prompt]

    def execute(self, requests):
        responses = []
        for request in requests:
            prompts = pb_utils.get_input_tensor_by_name(request, "PROMPT").as_numpy()
            temperatures = pb_utils.get_input_tensor_by_name(request, "TEMPERATURE").as_numpy()
            out = [[self.logit(p, t)] for p, t in zip(prompts.flat, temperatures.flat, strict=True)]
            out = np.nan_to_num(np.array(out, np.float32).reshape(-1, 1))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("LOGIT", out)]))
        return responses
