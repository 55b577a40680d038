"""Negates its input and counts the rows in a metric of its own."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(
            name="negated_rows", description="Rows that were negated", kind=pb_utils.MetricFamily.COUNTER
        )
        self.rows = self.family.Metric(labels={"model": args["model_name"], "version": args["model_version"]})

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            self.rows.increment(len(x))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", -x)]))
        return responses
