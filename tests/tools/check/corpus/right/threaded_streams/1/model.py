"""Generates tokens in a thread per request and stops when the client is gone."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.running = 0
        self.idle = threading.Condition()

    def execute(self, requests):
        for request in requests:
            wanted = int(np.clip(pb_utils.get_input_tensor_by_name(request, "MAX_TOKENS").as_numpy()[0], 0, 30))
            with self.idle:
                self.running += 1
            threading.Thread(target=self.generate, args=(request.get_response_sender(), wanted)).start()
        return None

    def generate(self, sender, wanted):
        token = 1
        for _ in range(wanted):
            time.sleep(0.002)
            if sender.is_cancelled():
                break
            token = token * 75 % 65537
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("TOKEN", np.array([token], np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        with self.idle:
            self.running -= 1
            self.idle.notify_all()

    def finalize(self):
        with self.idle:
            self.idle.wait_for(lambda: self.running == 0, timeout=10)
