"""Six tokens sampled from the logits; every row has the generator of its own seed."""

import numpy as np
import triton_python_backend_utils as pb_utils


def sample(logits, seed):
    logits = np.clip(np.nan_to_num(logits.astype(np.float64)), -50, 50)
    weights = np.exp(logits - logits.max())
    cumulated = np.cumsum(weights / weights.sum())
    draws = np.random.default_rng(int(seed) % 2**32).random(6)
    return np.searchsorted(cumulated, draws).clip(0, 15)


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            logits = pb_utils.get_input_tensor_by_name(request, "LOGITS").as_numpy()
            seeds = pb_utils.get_input_tensor_by_name(request, "SEED").as_numpy().reshape(-1)
            tokens = np.stack([sample(row, seed) for row, seed in zip(logits, seeds, strict=True)]).astype(np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("TOKENS", tokens)]))
        return responses
