"""Generates tokens in a thread, one every few milliseconds."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            wanted = int(np.clip(pb_utils.get_input_tensor_by_name(request, "MAX_TOKENS").as_numpy()[0], 1, 100))
            sender = request.get_response_sender()
            threading.Thread(target=self.generate, args=(sender, wanted)).start()
        return None

    def generate(self, sender, wanted):
        token = 1
        for _ in range(wanted):
            time.sleep(0.01)
            token = token * 75 % 65537
            out = pb_utils.Tensor("TOKEN", np.array([token], np.int32))
            sender.send(pb_utils.InferenceResponse([out]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
