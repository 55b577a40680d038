"""Takes events and writes them away in the background."""

import queue
import threading

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.events = queue.Queue(maxsize=100)
        self.written = 0
        self.flusher = threading.Thread(target=self.flush, daemon=True)
        self.flusher.start()

    def flush(self):
        while True:
            self.events.get()
            self.written += 1

    def execute(self, requests):
        responses = []
        for request in requests:
            events = pb_utils.get_input_tensor_by_name(request, "EVENT").as_numpy()
            for event in events.reshape(-1):
                self.events.put(bytes(event))
            accepted = pb_utils.Tensor("ACCEPTED", np.ones(events.shape, np.bool_))
            responses.append(pb_utils.InferenceResponse([accepted]))
        return responses

    def finalize(self):
        self.flusher.join()
