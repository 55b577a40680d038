"""Joins the pieces of a transcript. States live in a table of fixed size."""

import numpy as np
import triton_python_backend_utils as pb_utils

SLOTS = 4


def control(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])


class TritonPythonModel:
    def initialize(self, args):
        self.table = [b""] * SLOTS

    def execute(self, requests):
        responses = []
        for request in requests:
            chunk = pb_utils.get_input_tensor_by_name(request, "CHUNK").as_numpy().flat[0]
            slot = control(request, "CORRID") % SLOTS
            if control(request, "START"):
                self.table[slot] = b""
            self.table[slot] = (self.table[slot] + chunk)[-4096:]
            text = np.array([[self.table[slot]]], dtype=np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("TRANSCRIPT", text)]))
        return responses
