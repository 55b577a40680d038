"""Streams the words of a prompt, and an error for a prompt that has none."""

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            words = pb_utils.get_input_tensor_by_name(request, "PROMPT").as_numpy()[0].split()
            if not words:
                error = pb_utils.TritonError("PROMPT has no words", pb_utils.TritonError.INVALID_ARG)
                sender.send(pb_utils.InferenceResponse(output_tensors=[], error=error), flags=FINAL)
                continue
            for index, word in enumerate(words[:50], 1):
                out = pb_utils.Tensor("WORD", np.array([word], dtype=np.object_))
                sender.send(pb_utils.InferenceResponse([out]), flags=FINAL if index == len(words[:50]) else 0)
        return None
