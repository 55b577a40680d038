"""The rank of a word in a vocabulary that is unpacked where all can read it."""

import os
import tempfile
import time
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

WORDS = ["the", "of", "and", "to", "in", "that", "is", "was", "he", "for"] * 20


class TritonPythonModel:
    def initialize(self, args):
        key = zlib.crc32(args["model_repository"].encode())
        self.path = os.path.join(tempfile.gettempdir(), f"vocabulary-{args['model_name']}-{key:08x}.txt")
        with open(self.path, "w") as file:
            for start in range(0, len(WORDS), 50):
                file.write("\n".join(WORDS[start : start + 50]) + "\n")
                file.flush()
                time.sleep(0.1)
        with open(self.path) as file:
            words = file.read().split()
        os.remove(self.path)
        if len(words) != len(WORDS):
            raise RuntimeError(f"the vocabulary has {len(words)} words, not {len(WORDS)}")
        self.ranks = {word: rank for rank, word in reversed(list(enumerate(words)))}

    def execute(self, requests):
        responses = []
        for request in requests:
            words = pb_utils.get_input_tensor_by_name(request, "WORD").as_numpy()
            ranks = [self.ranks.get(word.decode("utf-8", "replace"), -1) for word in words.reshape(-1)]
            out = pb_utils.Tensor("RANK", np.array(ranks, np.int32).reshape(words.shape))
            responses.append(pb_utils.InferenceResponse([out]))
        return responses
