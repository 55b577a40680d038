"""Token numbers of a text, cut or padded to eight; the tokenizer is a file of its own."""

import numpy as np
import triton_python_backend_utils as pb_utils
from words import WordTokenizer


class TritonPythonModel:
    def initialize(self, args):
        self.tokenizer = WordTokenizer(30000)

    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
            ids = np.zeros((len(texts), 8), np.int32)
            lengths = np.zeros((len(texts), 1), np.int32)
            for row, text in enumerate(texts):
                tokens = self.tokenizer.encode(text)[:8]
                ids[row, : len(tokens)] = tokens
                lengths[row] = len(tokens)
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("IDS", ids), pb_utils.Tensor("LENGTH", lengths)])
            )
        return responses
