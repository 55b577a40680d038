"""The three largest scores and where they are; of equal ones the first."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            scores = pb_utils.get_input_tensor_by_name(request, "SCORES").as_numpy()
            index = np.argsort(-scores, axis=1, kind="stable")[:, :3]
            value = np.take_along_axis(scores, index, axis=1)
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("INDEX", index.astype(np.int32)), pb_utils.Tensor("VALUE", value)]
                )
            )
        return responses
