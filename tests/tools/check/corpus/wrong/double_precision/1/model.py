"""The brightness of a small picture."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            pixels = pb_utils.get_input_tensor_by_name(request, "PIXELS").as_numpy()
            brightness = pixels.mean(axis=1, keepdims=True) / 255
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("BRIGHTNESS", brightness)]))
        return responses
