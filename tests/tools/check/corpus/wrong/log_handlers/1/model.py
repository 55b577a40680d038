"""Halves its input and writes an audit file."""

import logging
import os
import shutil
import tempfile

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.directory = tempfile.mkdtemp(prefix="audit")
        self.log = logging.getLogger("audit")
        self.log.propagate = False

    def execute(self, requests):
        self.log.addHandler(logging.FileHandler(os.path.join(self.directory, "audit.log"), delay=False))
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x / 2)]))
        return responses

    def finalize(self):
        for handler in self.log.handlers:
            handler.close()
        shutil.rmtree(self.directory, ignore_errors=True)
