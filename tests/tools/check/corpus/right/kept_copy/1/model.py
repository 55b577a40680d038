"""How much a camera's picture moved since the last one; the last picture of each camera is kept as a copy."""

from collections import OrderedDict

import numpy as np
import triton_python_backend_utils as pb_utils

CAMERAS = 64


def control(request, name):
    return int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])


class TritonPythonModel:
    def initialize(self, args):
        self.last = OrderedDict()

    def moved(self, request):
        frame = pb_utils.get_input_tensor_by_name(request, "FRAME").as_numpy()
        camera = control(request, "CORRID")
        before = frame if control(request, "START") else self.last.get(camera, frame)
        difference = np.abs(frame.astype(np.int16) - before.astype(np.int16)).max()
        self.last[camera] = frame.copy()
        self.last.move_to_end(camera)
        if len(self.last) > CAMERAS:
            self.last.popitem(last=False)
        return np.array([[difference]], np.uint8)

    def execute(self, requests):
        responses = []
        for request in requests:
            moved = self.moved(request) if control(request, "READY") else np.zeros((1, 1), np.uint8)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("MOVED", moved)]))
        return responses
