"""Takes events and counts them in the background; ends its thread when it is unloaded."""

import queue
import threading

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.events = queue.Queue()
        self.written = 0
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()

    def write(self):
        while self.events.get() is not None:
            self.written += 1

    def execute(self, requests):
        responses = []
        for request in requests:
            events = pb_utils.get_input_tensor_by_name(request, "EVENT").as_numpy()
            for event in events.reshape(-1):
                self.events.put(len(event))
            accepted = pb_utils.Tensor("ACCEPTED", np.ones(events.shape, np.bool_))
            responses.append(pb_utils.InferenceResponse([accepted]))
        return responses

    def finalize(self):
        self.events.put(None)
        self.writer.join(5)
