"""Answers as often as TIMES says, not at all too."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            times = int(np.clip(pb_utils.get_input_tensor_by_name(request, "TIMES").as_numpy()[0], 0, 20))
            sender = request.get_response_sender()
            for _ in range(times):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
