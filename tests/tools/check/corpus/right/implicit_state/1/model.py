"""A leaky integrator with implicit state, of which the Python backend hands over the initial one each time."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            start = pb_utils.get_input_tensor_by_name(request, "START").as_numpy().reshape(-1, 1)
            hidden = pb_utils.get_input_tensor_by_name(request, "HIDDEN_IN").as_numpy()
            with np.errstate(all="ignore"):
                hidden = np.where(start == 1, np.float32(0), hidden) * np.float32(0.5) + x
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUTPUT", hidden), pb_utils.Tensor("HIDDEN_OUT", hidden.copy())]
                )
            )
        return responses
