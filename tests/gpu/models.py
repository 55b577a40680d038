"""The models of the checks and measurements, and a repository for them."""

from __future__ import annotations

from pathlib import Path

#: Answers with its input where that lies, by DLPack alone: its process imports neither torch nor CuPy.
IDENTITY = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "IN")
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", array)]))
        return responses
"""

#: Adds one to its input on the device; a card's `in_model` stands before it.
ADD_ONE = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = of(pb_utils.get_input_tensor_by_name(request, "IN"))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("OUT", array + 1)]))
        return responses
"""

#: Answers with 1 if its input is in host memory, else with 0.
WHERE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            values = np.array([pb_utils.get_input_tensor_by_name(request, "IN").is_cpu()], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)]))
        return responses
"""

#: Makes an array of as many elements as its input, keeps it, and answers with its process; after a card's `in_model`.
HOARD = """
import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            self.kept = ones(int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0]))
            values = np.array([os.getpid()], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)]))
        return responses
"""

_CONFIG = """
backend: "python"
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }} ]
instance_group [ {{ kind: {kind} }} ]
parameters {{ key: "FORCE_CPU_ONLY_INPUT_TENSORS" value: {{ string_value: "{cpu_only}" }} }}
"""


def place(repository: Path, name: str, source: str, *, on_device: bool = True) -> str:
    """Write a model, whose inputs stay on the device or are brought to the host, and return its name."""
    directory = repository / name
    (directory / "1").mkdir(parents=True, exist_ok=True)
    kind, cpu_only = ("KIND_GPU", "no") if on_device else ("KIND_CPU", "yes")
    (directory / "config.pbtxt").write_text(_CONFIG.format(kind=kind, cpu_only=cpu_only))
    (directory / "1" / "model.py").write_text(source)
    return name
