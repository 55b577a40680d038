"""Speaks a text sentence by sentence; a pool makes the sentences, and they are sent in their order."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import triton_python_backend_utils as pb_utils


def speak(sentence):
    time.sleep(0.0003 * min(len(sentence), 30))
    return np.frombuffer(sentence, np.uint8).astype(np.int16)


class TritonPythonModel:
    def initialize(self, args):
        self.pool = ThreadPoolExecutor(4)

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[0]
            sentences = [sentence for sentence in text.split(b".") if sentence][:12]
            for audio in self.pool.map(speak, sentences):
                if sender.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("AUDIO", audio)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None

    def finalize(self):
        self.pool.shutdown()
