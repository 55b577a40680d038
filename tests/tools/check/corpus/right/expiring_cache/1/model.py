"""Degrees by city, looked up again after two seconds, and how old they are."""

import time
import zlib

import numpy as np
import triton_python_backend_utils as pb_utils

SECONDS = 2.0


class TritonPythonModel:
    def initialize(self, args):
        self.known = {}

    def look_up(self, city):
        now = time.monotonic()
        kept = self.known.get(city)
        if kept is None or now - kept[1] > SECONDS:
            kept = self.known[city] = (zlib.crc32(city) % 400 / 10 - 10, now)
            for old in [c for c, (_, at) in self.known.items() if now - at > SECONDS]:
                del self.known[old]
            while len(self.known) > 256:
                del self.known[next(iter(self.known))]
        return kept[0], now - kept[1]

    def execute(self, requests):
        responses = []
        for request in requests:
            cities = pb_utils.get_input_tensor_by_name(request, "CITY").as_numpy().reshape(-1)
            found = np.array([self.look_up(c) for c in cities], np.float64).reshape(-1, 2)
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("DEGREES", found[:, :1].astype(np.float32)),
                        pb_utils.Tensor("AGE_SECONDS", found[:, 1:].copy()),
                    ]
                )
            )
        return responses
