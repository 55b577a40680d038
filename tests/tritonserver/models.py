"""The models that the tests of `tritonlab.tritonserver` serve."""

from __future__ import annotations

import json
from typing import Any

from tests.models import executes

#: Answers every input under the name with IN for OUT; the parameters it was sent come as JSON, and a text input says
#: what else it is to do. `decoupled` in its parameters makes it so.
ECHO = """
import json

import numpy as np
import triton_python_backend_utils as pb_utils

TYPES = ["FP32", "FP16", "INT64", "BOOL", "STRING", "UINT8"]


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        for name in TYPES:
            config.add_input({"name": "IN_" + name, "data_type": "TYPE_" + name, "dims": [-1, -1], "optional": True})
            config.add_output({"name": "OUT_" + name, "data_type": "TYPE_" + name, "dims": [-1, -1]})
        config.add_output({"name": "REQUEST", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(0)
        if config.as_dict()["parameters"]["decoupled"]["string_value"] == "yes":
            config.set_model_transaction_policy({"decoupled": True})
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = config.get("model_transaction_policy", {}).get("decoupled")

    def execute(self, requests):
        answers = []
        for request in requests:
            tensors = [pb_utils.Tensor(t.name().replace("IN_", "OUT_"), t.as_numpy()) for t in request.inputs()]
            text = pb_utils.get_input_tensor_by_name(request, "IN_STRING")
            if text is not None and text.as_numpy()[0, 0] == b"fail":
                raise ValueError("asked to fail")
            fields = {"parameters": json.loads(request.parameters()), "id": request.request_id(),
                      "correlation": request.correlation_id(), "flags": request.flags(), "timeout": request.timeout()}
            tensors.append(pb_utils.Tensor("REQUEST", np.array([json.dumps(fields)], np.object_)))
            answer = pb_utils.InferenceResponse(tensors)
            if self.decoupled:
                sender = request.get_response_sender()
                sender.send(answer)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            answers.append(answer)
        return None if self.decoupled else answers
"""
ECHO_CONFIG = """
backend: "python"
parameters { key: "decoupled" value { string_value: "yes" } }
instance_group { kind: KIND_CPU }
"""


def one_answer(**more: Any) -> dict[str, str]:
    """Load parameters with which ECHO is not decoupled."""
    config = {"backend": "python", "parameters": {"decoupled": {"string_value": "no"}}, **more}
    return {"config": json.dumps(config)}


#: Answers with the words of its prompt, up to `max_tokens` of them; as a stream if the request wants one.
PARROT = executes("""
    for request in requests:
        fields = {tensor.name(): tensor.as_numpy().reshape(-1)[0] for tensor in request.inputs()}
        sender = request.get_response_sender()
        last = fields["text_input"].decode().split("\\n")[-1].removeprefix("user: ")
        if last == "fail":
            raise RuntimeError("asked to fail")
        words = last.split()[: int(fields["max_tokens"])]
        if "stop_words" in fields and fields["stop_words"].decode() in words:
            words = words[: words.index(fields["stop_words"].decode())]
        texts = [word + " " for word in words] if fields["stream"] else [" ".join(words)]
        for text in texts:
            tensor = pb_utils.Tensor("text_output", np.array([[text]], np.object_))
            sender.send(pb_utils.InferenceResponse([tensor]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
""")
PARROT_CONFIG = """
backend: "python"
max_batch_size: 8
input { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }
input { name: "stream" data_type: TYPE_BOOL dims: [ 1 ] }
input { name: "max_tokens" data_type: TYPE_INT32 dims: [ 1 ] }
input { name: "stop_words" data_type: TYPE_STRING dims: [ 1 ] optional: true }
output { name: "text_output" data_type: TYPE_STRING dims: [ -1 ] }
model_transaction_policy { decoupled: true }
instance_group { kind: KIND_CPU }
"""
