"""Squares its input; a socket beside the model tells a collector how many requests there were."""

import os
import socket
import tempfile
import threading
import zlib

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.count = 0
        name = f"count-{args['model_name']}-{zlib.crc32(args['model_repository'].encode()):08x}.sock"
        self.path = os.path.join(tempfile.gettempdir(), name)
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.server.bind(self.path)
        self.server.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            with client:
                client.sendall(str(self.count).encode())

    def execute(self, requests):
        self.count += len(requests)
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * x)]))
        return responses

    def finalize(self):
        self.server.close()
        os.remove(self.path)
