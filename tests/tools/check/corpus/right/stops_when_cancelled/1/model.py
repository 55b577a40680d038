"""A relaxation of some steps; a request that was cancelled leaves the batch, the others go on."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        steps = [pb_utils.get_input_tensor_by_name(request, "STEPS").as_numpy() for request in requests]
        gone = set()
        for _ in range(min(max(int(step.max()) for step in steps), 10)):
            time.sleep(0.003)
            gone.update(index for index, request in enumerate(requests) if request.is_cancelled())
        responses = []
        for index, step in enumerate(steps):
            if index in gone:
                error = pb_utils.TritonError("cancelled", pb_utils.TritonError.CANCELLED)
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=error))
                continue
            energy = (1.0 / (1.0 + np.clip(step, 0, 10))).astype(np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("ENERGY", energy)]))
        return responses
