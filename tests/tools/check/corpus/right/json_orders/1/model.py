"""The total of an order in JSON. What is not an order is refused by itself."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


def total(text):
    order = json.loads(text)
    value = sum(float(item["price"]) * int(item["count"]) for item in order["items"])
    if not np.isfinite(value):
        raise ValueError("the total is not finite")
    return value


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            orders = pb_utils.get_input_tensor_by_name(request, "ORDER").as_numpy()
            try:
                totals = np.array([total(order) for order in orders.reshape(-1)], np.float64).reshape(orders.shape)
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                refused = pb_utils.TritonError(f"ORDER: {error}", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=refused))
            else:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("TOTAL", totals)]))
        return responses
