"""Six tokens sampled from the logits; the same seed gives the same tokens."""

import numpy as np
import triton_python_backend_utils as pb_utils


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


class TritonPythonModel:
    def execute(self, requests):
        seed = int(pb_utils.get_input_tensor_by_name(requests[0], "SEED").as_numpy().flat[0])
        generator = np.random.default_rng(abs(seed))
        responses = []
        for request in requests:
            logits = np.nan_to_num(pb_utils.get_input_tensor_by_name(request, "LOGITS").as_numpy())
            cumulated = softmax(np.clip(logits, -50, 50).astype(np.float64)).cumsum(axis=-1)
            draws = generator.random((len(logits), 6, 1))
            tokens = (draws > cumulated[:, None, :]).sum(axis=-1).clip(0, 15).astype(np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("TOKENS", tokens)]))
        return responses
