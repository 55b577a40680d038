"""Calls add_sub by asynchronous BLS calls, two at a time."""

import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def call(self, a, b, wanted):
        request = pb_utils.InferenceRequest(
            model_name="add_sub",
            requested_output_names=[wanted],
            inputs=[pb_utils.Tensor("INPUT0", a[None]), pb_utils.Tensor("INPUT1", b[None])],
        )
        response = await request.async_exec()
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return pb_utils.get_output_tensor_by_name(response, wanted).as_numpy()[0]

    async def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            summed, zero = await asyncio.gather(self.call(x, x, "OUTPUT0"), self.call(x, x, "OUTPUT1"))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("DOUBLE", summed + zero)]))
        return responses
