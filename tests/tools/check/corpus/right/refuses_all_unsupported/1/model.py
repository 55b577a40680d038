"""Greets in two languages; others are refused by an exception, which is proper for one request at a time."""

import numpy as np
import triton_python_backend_utils as pb_utils

GREETINGS = {b"en": b"Hello ", b"de": b"Hallo "}


class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        language = pb_utils.get_input_tensor_by_name(request, "LANGUAGE").as_numpy()[0]
        text = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[0]
        if language not in GREETINGS:
            raise pb_utils.TritonModelException(f"LANGUAGE must be one of {sorted(GREETINGS)}, not {language!r}")
        out = np.array([GREETINGS[language] + text], dtype=np.object_)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("GREETING", out)])]
