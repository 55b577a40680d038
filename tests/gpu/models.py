"""The models of the checks and measurements, and a repository for them."""

from __future__ import annotations

from pathlib import Path

from tests.models import answers, executes


def _answers(tensor: str) -> str:
    """Return a model that answers each request with a tensor, an expression of `request`."""
    return executes(f"return [pb_utils.InferenceResponse([{tensor}]) for request in requests]")


#: Answers with its input where that lies, by DLPack alone: its process imports neither torch nor CuPy.
IDENTITY = _answers('pb_utils.Tensor.from_dlpack("OUT", request.inputs()[0])')

#: Adds one to its input on the device; a card's `in_model` stands before it.
ADD_ONE = _answers('pb_utils.Tensor.from_dlpack("OUT", of(request.inputs()[0]) + 1)')

#: Answers with 1 if its input is in host memory, else with 0.
WHERE = _answers('pb_utils.Tensor("OUT", np.array([request.inputs()[0].is_cpu()], np.float32))')

#: Makes an array of as many elements as its input, keeps it, and answers with its process; after a card's `in_model`.
HOARD = answers("np.array([os.getpid()], np.float32)", first="self.kept = ones(int(x[0]))", imports="import os")

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
