"""Powers of square matrices modulo a prime; one request at a time. Others than square ones are refused."""

import numpy as np
import triton_python_backend_utils as pb_utils

PRIME = 32749


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            matrix = pb_utils.get_input_tensor_by_name(request, "M").as_numpy()
            if matrix.shape[0] != matrix.shape[1] or matrix.shape[0] > 64:
                text = f"M must be square, 64 wide at most, not {list(matrix.shape)}"
                error = pb_utils.TritonError(text, pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=error))
                continue
            power = int(pb_utils.get_input_tensor_by_name(request, "POWER").as_numpy()[0]) % 64
            result, base = np.eye(len(matrix), dtype=np.int64), matrix % PRIME
            for bit in range(6):
                if power >> bit & 1:
                    result = result @ base % PRIME
                base = base @ base % PRIME
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", result)]))
        return responses
