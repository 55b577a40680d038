"""Inverts small matrices. A watchdog logs what takes too long."""

import threading

import numpy as np
import triton_python_backend_utils as pb_utils


class Watchdog:
    def __init__(self, seconds):
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.watch, args=(seconds,), daemon=True)
        self.thread.start()

    def watch(self, seconds):
        while not self.done.wait(seconds):
            pb_utils.Logger.log_warn("a matrix takes long")


class TritonPythonModel:
    def invert(self, matrix):
        watchdog = Watchdog(60)
        inverse = np.linalg.inv(matrix)
        watchdog.done.set()
        return inverse.astype(np.float32)

    def execute(self, requests):
        responses = []
        for request in requests:
            matrix = pb_utils.get_input_tensor_by_name(request, "MATRIX").as_numpy()
            try:
                inverse = pb_utils.Tensor("INVERSE", self.invert(matrix))
                responses.append(pb_utils.InferenceResponse([inverse]))
            except np.linalg.LinAlgError as error:
                refused = pb_utils.TritonError(f"MATRIX: {error}", pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(output_tensors=[], error=refused))
        return responses
