"""Counts on from START, five values a request; every request has a thread of its own."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.position = 0

    def execute(self, requests):
        for request in requests:
            start = int(pb_utils.get_input_tensor_by_name(request, "START").as_numpy()[0]) % 100000
            threading.Thread(target=self.count, args=(request.get_response_sender(), start)).start()
        return None

    def count(self, sender, start):
        self.position = start
        for _ in range(5):
            time.sleep(0.004)
            out = pb_utils.Tensor("VALUE", np.array([self.position], np.int32))
            sender.send(pb_utils.InferenceResponse([out]))
            self.position += 1
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
