"""One-hot codes of classes. Classes that do not exist are refused."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.codes = np.eye(10, dtype=np.uint8)

    def execute(self, requests):
        responses = []
        for request in requests:
            classes = pb_utils.get_input_tensor_by_name(request, "CLASS").as_numpy()
            wrong = classes[(classes < 0) | (classes > 9)]
            if wrong.size:
                text = f"CLASS has {int(wrong.flat[0])}; classes are 0 to 9"
                error = pb_utils.TritonError(text, pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=error))
                continue
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("ONE_HOT", self.codes[classes])]))
        return responses
