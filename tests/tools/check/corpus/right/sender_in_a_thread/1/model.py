"""Answers each request from a thread, by its response sender, after execute returned."""

from concurrent.futures import ThreadPoolExecutor

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.pool = ThreadPoolExecutor(4)

    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy().copy()
            self.pool.submit(self.answer, request.get_response_sender(), x)
        return None

    def answer(self, sender, x):
        response = pb_utils.InferenceResponse([pb_utils.Tensor("Y", -x)])
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        self.pool.shutdown()
