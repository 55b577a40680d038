"""The size and digest of a file, which a tool of another language could read meanwhile."""

import hashlib
import os
import tempfile

import numpy as np
import triton_python_backend_utils as pb_utils


def measure(blob):
    with tempfile.NamedTemporaryFile(prefix="blob") as file:
        file.write(blob)
        file.flush()
        return os.stat(file.name).st_size, hashlib.sha1(blob).hexdigest().encode()


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            blobs = pb_utils.get_input_tensor_by_name(request, "BLOB").as_numpy()
            sizes, digests = zip(*(measure(blob) for blob in blobs.reshape(-1)), strict=True)
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("SIZE", np.array(sizes, np.int64).reshape(blobs.shape)),
                        pb_utils.Tensor("SHA", np.array(digests, np.object_).reshape(blobs.shape)),
                    ]
                )
            )
        return responses
