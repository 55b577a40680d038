"""Whatever lies in `sys.modules`, and whatever a model's class answers, the model loads and serves as on Triton."""

from __future__ import annotations

import numpy as np
import pytest

from .clients import Client
from .models import config, model
from .rules import rule

SOURCE = """
import sys, types

import numpy as np
import triton_python_backend_utils as pb_utils


class Raises:
    def __getattribute__(self, name):
        raise RuntimeError(name)


class Invents:
    __slots__ = ()

    def __getattr__(self, name):
        return self


class RaisingModule(types.ModuleType):
    def __getattribute__(self, name):
        raise RuntimeError(name)


def library(**names):
    sys.modules["torch"] = types.ModuleType("torch")
    vars(sys.modules["torch"]).update(names)


class Meta(type):
    def __getattr__(self, name):
        raise RuntimeError(name)


class Answers:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([7], np.int32))])]


class TritonPythonModel(Answers):
    pass


class Me:
    TritonPythonModel = TritonPythonModel

    def __getattr__(self, name):
        raise RuntimeError(name)


"""
#: What follows the class; its own name for the model.
ODD = {
    "torch_of_nothing": "library()",
    "torch_that_raises": "sys.modules['torch'] = Raises()",
    "torch_module_that_raises": "sys.modules['torch'] = RaisingModule('torch')",
    "torch_that_invents": "sys.modules['torch'] = Invents()",
    "torch_that_is_none": "sys.modules['torch'] = None",
    "torch_with_an_odd_path": "library(__path__=5)",
    "torch_with_an_odd_file": "library(__path__=Raises(), __file__=Raises())",
    "stdout_that_raises": "sys.stdout = Raises()",
    "stderr_that_raises": "sys.stderr = Raises()",
    "no_streams": "sys.stdout = sys.stderr = None",
    "module_that_raises": "def __getattr__(name): raise RuntimeError(name)",
    "object_as_module": "sys.modules[__name__] = Me()",
    "class_that_raises": "class TritonPythonModel(Answers, metaclass=Meta): pass",
    "key_error": "class TritonPythonModel(Answers):\n    def __getattr__(self, name): return {}[name]",
    "property_initialize": "class TritonPythonModel(Answers):\n    initialize = property(lambda self: 1 / 0)",
    "property_finalize": "class TritonPythonModel(Answers):\n    finalize = property(lambda self: 1 / 0)",
    "property_is_ready": "class TritonPythonModel(Answers):\n    is_ready = property(lambda self: 1 / 0)",
    "property_execute": "class TritonPythonModel(Answers):\n    execute = property(lambda self: 1 / 0)",
}
CONFIG = config("IN INT32 1", "OUT INT32 1")
MODELS = {name: model(SOURCE + rest, CONFIG) for name, rest in ODD.items()}


@rule("2.1.5", "2.3.1", "2.7.1", "3.1.1")
@pytest.mark.parametrize("name", ODD)
def test_it_is_ready_answers_and_unloads(client: Client, name: str) -> None:
    assert client.ready(name)
    answer = client.infer(name, {"IN": np.array([1], np.int32)})
    if name == "property_execute":
        assert answer.error.endswith("1/model.py does not implement `execute` method.")
    else:
        assert (answer.error, answer.outputs["OUT"].tolist()) == ("", [7])
    assert client.unload(name) is None
