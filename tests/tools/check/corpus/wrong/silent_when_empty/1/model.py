"""Streams the words of a prompt."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            words = pb_utils.get_input_tensor_by_name(request, "PROMPT").as_numpy()[0].split()
            for index, word in enumerate(words):
                response = pb_utils.InferenceResponse([pb_utils.Tensor("WORD", np.array([word], dtype=np.object_))])
                last = index == len(words) - 1
                sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if last else 0)
        return None
