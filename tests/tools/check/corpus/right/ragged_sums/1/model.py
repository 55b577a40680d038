"""Sums of rows of any length, batched without padding."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        values = [pb_utils.get_input_tensor_by_name(request, "VALUES").as_numpy() for request in requests]
        flat = np.concatenate([value.reshape(-1) for value in values])
        widths = np.concatenate([np.full(len(value), value.shape[1], np.int64) for value in values])
        ends = np.cumsum(widths)
        cumulated = np.concatenate([[0], np.cumsum(flat)])
        sums = (cumulated[ends] - cumulated[ends - widths]).astype(np.int64).reshape(-1, 1)
        counts = widths.astype(np.int32).reshape(-1, 1)
        responses, start = [], 0
        for value in values:
            end = start + len(value)
            responses.append(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("SUM", sums[start:end]), pb_utils.Tensor("COUNT", counts[start:end])]
                )
            )
            start = end
        return responses
