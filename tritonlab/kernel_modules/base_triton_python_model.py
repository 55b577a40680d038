"""A base class for models of Triton's Python backend whose config comes from the type hints of one method.

This file lies beside the model.py that imports it, and needs numpy and Triton's `triton_python_backend_utils` only:

    from base_triton_python_model import BaseTritonPythonModel

    class TritonPythonModel(BaseTritonPythonModel):
        max_batch_size = 8

        def predict(self, A: "FP32[4]", B: "FP32[4]?" = None) -> {"SUM": "FP32[4]"}:
            return {"SUM": A if B is None else A + B}

The hints are `TYPE[DIMS]`, as in config.pbtxt without the batch dimension, with a `?` behind that of an optional input.
`predict` gets the inputs of one request as arrays, with the batch dimension if max_batch_size is not 0, and returns the
outputs by name. What a config.pbtxt says counts; what it does not say is completed when the model is loaded.
"""

from __future__ import annotations

import ast
import inspect
import re
import traceback
from typing import Any

import triton_python_backend_utils as pb_utils

_HINT = re.compile(r"^(\w+)\[([-\d,\s]*)\](\??)$")


class BaseTritonPythonModel:
    """A model that answers each request by `predict`. Override `initialize` to load what it needs."""

    max_batch_size = 0

    def predict(self, **inputs: Any) -> Any:
        raise NotImplementedError("define predict(self, NAME: 'FP32[4]', ...) -> {'NAME': 'FP32[4]'}")

    def initialize(self, args: dict[str, str]) -> None:
        self.args = args

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        try:
            outputs = self.predict(**inputs)
            return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in outputs.items()])
        except Exception:  # of one request; the others of the batch are answered
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(traceback.format_exc()))

    @classmethod
    def auto_complete_config(cls, auto_complete_model_config: Any) -> Any:
        """Complete the config by the hints of `predict`; Triton calls it before the model is made."""
        config, signature = auto_complete_model_config, inspect.signature(cls.predict)
        config.set_max_batch_size(cls.max_batch_size)
        for name, parameter in list(signature.parameters.items())[1:]:
            config.add_input(_tensor(name, _literal(parameter.annotation)))
        for name, hint in _literal(signature.return_annotation).items():
            config.add_output(_tensor(name, hint))
        return config


def _literal(hint: Any) -> Any:
    """Return a hint as it is written; `from __future__ import annotations` makes a text of its source."""
    if isinstance(hint, str) and hint[:1] in ("{", "'", '"'):
        return ast.literal_eval(hint)
    return hint


def _tensor(name: str, hint: Any) -> dict[str, Any]:
    found = _HINT.match(hint.replace(" ", "")) if isinstance(hint, str) else None
    if found is None:
        raise ValueError(f"{name} of predict needs a hint as 'FP32[-1,4]', not {hint!r}")
    datatype = "STRING" if found.group(1) == "BYTES" else found.group(1)
    dims = [int(each) for each in found.group(2).split(",") if each]
    entry = {"name": name, "data_type": "TYPE_" + datatype, "dims": dims}
    return dict(entry, optional=True) if found.group(3) else entry
