"""Counts up to COUNT, one number a response, and tells at the end how many there were."""

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def number(value):
    return pb_utils.InferenceResponse([pb_utils.Tensor("NUMBER", np.array([value], np.int32))])


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            count = int(np.clip(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0], 1, 20))
            for value in range(count):
                sender.send(number(value), flags=FINAL if value == count - 1 else 0)
            try:
                sender.send(number(count))
            except Exception as error:
                pb_utils.Logger.log_warn(f"usage is not sent: {error}")
        return None
