"""Text in capitals, with an identifier that is made for every row."""

import uuid

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
            upper = [text.decode("utf-8", "replace").upper().encode() for text in texts.reshape(-1)]
            ids = [uuid.uuid4().hex.encode() for _ in upper]
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("UPPER", np.array(upper, np.object_).reshape(texts.shape)),
                        pb_utils.Tensor("TRACE_ID", np.array(ids, np.object_).reshape(texts.shape)),
                    ]
                )
            )
        return responses
