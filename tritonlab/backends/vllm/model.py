"""NVIDIA's vLLM backend over an engine that invents its tokens (rule 2.17.4). NVIDIA's model.py is the user's, is found
in the folder that the choice names, and runs as it is: what it imports of `vllm` is `tritonlab_vllm`."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tritonlab_vllm
from tritonlab_backend import choice_settings


class TritonPythonModel:
    """NVIDIA's model, which is not known before its config is."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        model = _nvidias(auto_complete_model_config.as_dict())
        return model.auto_complete_config(auto_complete_model_config)

    def initialize(self, args: Mapping[str, str]) -> None:
        self._model = _nvidias(json.loads(args["model_config"]))()
        self._model.initialize(args)

    def execute(self, requests: Sequence[Any]) -> Any:
        return self._model.execute(requests)

    def finalize(self) -> None:
        self._model.finalize()


def _nvidias(config: Mapping[str, Any]) -> Any:
    """Import NVIDIA's model.py with the stand-in for vllm, and return its class."""
    settings = choice_settings(config)
    tritonlab_vllm.install(settings)
    folder = Path(settings["directory"])
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # its `utils` lies beside it
    spec = importlib.util.spec_from_file_location("vllm_backend_model", folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TritonPythonModel
