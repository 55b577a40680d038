"""The largest values of a sequence so far. States of sequences that nobody ended are dropped by age."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils

IDLE_SECONDS = 5.0


def control(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])


class TritonPythonModel:
    def initialize(self, args):
        self.states = {}

    def execute(self, requests):
        now = time.monotonic()
        for ident in [ident for ident, (seen, _) in self.states.items() if now - seen > IDLE_SECONDS]:
            del self.states[ident]
        responses = []
        for request in requests:
            frame = pb_utils.get_input_tensor_by_name(request, "FRAME").as_numpy()
            ident = control(request, "CORRID")
            if control(request, "START") or ident not in self.states:
                largest = frame.copy()
            else:
                largest = np.fmax(self.states[ident][1], frame)
            self.states[ident] = (now, largest)
            if control(request, "END"):
                del self.states[ident]
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("MAXIMUM", largest)]))
        return responses
