"""Models that the conformance tests put into a repository: `model.py` sources and `config.pbtxt` texts."""

from __future__ import annotations

from tests.models import ADD_SUB, ECHO, RETURNS, executes

from .clients import Files

__all__ = ["ADD_SUB", "ADD_SUB_CONFIG", "CPU", "ECHO", "PARAMETERS", "RETURNS", "SCRIPTED", "config", "model"]

CPU = "instance_group { kind: KIND_CPU }"

#: Runs the Python text it is sent: the body of a function of (self, requests, pb_utils) that is what `execute` returns.
SCRIPTED = """
import textwrap

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        code = pb_utils.get_input_tensor_by_name(requests[0], "CODE").as_numpy().reshape(-1)[0].decode()
        scope = {"np": np, "pb_utils": pb_utils}
        exec("def script(self, requests):\\n" + textwrap.indent(code, "    "), scope)
        return scope["script"](self, requests)
"""

#: Answers with the parameters of its request as they are.
PARAMETERS = executes(
    "texts = [np.array([request.parameters().encode()], dtype=object) for request in requests]\n"
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", text)]) for text in texts]'
)

ADD_SUB_CONFIG = """
backend: "python"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""


def model(source: str, config: str | None = None, **more: str) -> Files:
    """Return a model directory with version 1."""
    return {"1/model.py": source, **({"config.pbtxt": config} if config is not None else {}), **more}


def config(inputs: str, outputs: str, *rest: str) -> str:
    """Return the text of a config.pbtxt. A tensor is `NAME TYPE dims`, several by `;`: `IN FP32 -1,4; MASK BOOL 1
    optional`."""
    lines = ['backend: "python"']
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for tensor in filter(None, (t.strip() for t in tensors.split(";"))):
            name, datatype, dims, *optional = tensor.split()
            extra = " optional: true" if optional and kind == "input" else ""
            lines.append(f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ]{extra} }}')
    return "\n".join([*lines, *(rest or (CPU,)), ""])
