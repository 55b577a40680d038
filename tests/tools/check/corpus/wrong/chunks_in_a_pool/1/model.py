"""Speaks a text sentence by sentence; sentences are made by a pool and sent as soon as they are ready."""

import time
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.pool = ThreadPoolExecutor(4)
        self.streams = ThreadPoolExecutor(8)

    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[0]
            self.streams.submit(self.speak, request.get_response_sender(), text)
        return None

    def speak(self, sender, text):
        sentences = [sentence for sentence in text.split(b".") if sentence][:12]
        wait([self.pool.submit(self.sentence, sender, sentence) for sentence in sentences])
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def sentence(self, sender, sentence):
        time.sleep(0.001 * min(len(sentence), 30))
        audio = np.frombuffer(sentence, np.uint8).astype(np.int16)
        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("AUDIO", audio)]))

    def finalize(self):
        self.streams.shutdown()
        self.pool.shutdown()
