"""The initial of a name, in capitals."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            names = pb_utils.get_input_tensor_by_name(request, "NAME").as_numpy()
            initials = []
            for name in names.reshape(-1):
                text = name.decode("utf-8", errors="replace").strip()
                initials.append(text[0].upper().encode())
            out = np.array(initials, dtype=np.object_).reshape(names.shape)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("INITIAL", out)]))
        return responses
