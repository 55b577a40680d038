"""Generates tokens until the client has enough of them."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            wanted = int(np.clip(pb_utils.get_input_tensor_by_name(request, "MAX_TOKENS").as_numpy()[0], 1, 100))
            threading.Thread(target=self.generate, args=(request.get_response_sender(), wanted)).start()
        return None

    def generate(self, sender, wanted):
        for token in range(wanted):
            time.sleep(0.004)
            if sender.is_cancelled():
                return
            out = pb_utils.Tensor("TOKEN", np.array([token], np.int32))
            sender.send(pb_utils.InferenceResponse([out]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
