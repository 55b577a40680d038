"""Age groups. Ages that cannot be are left out and logged."""

import numpy as np
import triton_python_backend_utils as pb_utils

BOUNDS = [18, 30, 45, 65]


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            age = pb_utils.get_input_tensor_by_name(request, "AGE").as_numpy()
            if (age < 0).any() or (age > 150).any():
                pb_utils.Logger.log_warn(f"ages {age.reshape(-1).tolist()} cannot be")
                continue
            group = np.digitize(age, BOUNDS).astype(np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("GROUP", group)]))
        return responses
