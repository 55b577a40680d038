"""The balance of an account while its bookings come in, a sequence per account."""

import numpy as np
import triton_python_backend_utils as pb_utils


def control(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])


class TritonPythonModel:
    def initialize(self, args):
        self.balances = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            account = control(request, "CORRID")
            amount = int(pb_utils.get_input_tensor_by_name(request, "AMOUNT").as_numpy().flat[0])
            if control(request, "START"):
                self.balances.setdefault(account, 0)
            self.balances[account] = self.balances.get(account, 0) + amount
            balance = np.array([[self.balances[account]]], np.int64).astype(np.int32)
            if control(request, "END"):
                del self.balances[account]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("BALANCE", balance)]))
        return responses
