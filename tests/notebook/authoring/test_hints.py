from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tritonlab.core.status import Frame, RemoteException
from tritonlab.notebook.authoring.hints import hint, line_hint

CONFIGS: dict[str, dict[str, Any]] = {
    "m": {"max_batch_size": 8, "input": [{"name": "A", "dims": [-1, 3]}, {"name": "B"}], "output": [{"name": "SUM"}]},
    "flat": {"max_batch_size": 0, "input": []},
}
#: Texts of errors and, indented below each, the advice for it, `-` for none. `\n` and `\s` are white space.
_PAIRS = re.findall(r"(.+)\n    (.+)\n", Path(__file__).with_name("hints.txt").read_text())
ADVICE = [(text.replace(r"\n", "\n").replace(r"\s", " "), advice.removeprefix("-")) for text, advice in _PAIRS]
PARAMETER = "a parameter of the config is an object: config['parameters'][KEY]['string_value'] is its text"


@pytest.mark.parametrize(("text", "expected"), ADVICE)
def test_texts_of_triton_get_advice(text: str, expected: str) -> None:
    assert hint(text, CONFIGS.get) == expected


def test_an_unknown_model_gets_the_cell_to_run() -> None:
    assert "%%triton_model x cell first" in hint("Request for unknown model: 'x' is not found", CONFIGS.get)


@pytest.mark.parametrize(
    "text",
    [
        "Request for unknown model: 'clean' has no available versions",
        "Model clean - Error when running inference: Failed for execute the inference request. Model 'clean' is not "
        "ready.",
    ],
)
def test_a_model_that_is_unloaded_is_not_another_model(text: str) -> None:
    assert hint(text, CONFIGS.get, lambda: ["class", "clean"]) == "it is not loaded: %triton load clean"
    assert hint(text, CONFIGS.get, lambda: ["clear"]) == "did you mean 'clear'?"


def test_a_step_of_an_ensemble_whose_model_does_not_exist() -> None:
    text = "load failed for model 'e': ensemble e contains models that are not available or ambiguous: clas\n"
    assert hint(text, CONFIGS.get, lambda: ["e", "class"]) == "did you mean 'class'?"
    assert hint(text, CONFIGS.get) == "load clas first, or name another model in the step"


def test_a_version_that_does_not_serve_is_not_a_model_that_is_not_loaded() -> None:
    text = "Failed for execute the inference request. Model 'class' is not ready."
    assert hint(text, lambda name: {}, lambda: ["class"]).startswith("class serves, but not the version")


CONFIG: dict[str, Any] = {
    "input": [{"name": "IN"}, {"name": "MASK"}],
    "max_batch_size": 8,
    "parameters": {"scale": {"string_value": "2"}, "k": {"string_value": "1"}},
    "sequence_batching": {"control_input": [{"name": "START"}], "state": [{"input_name": "STATE"}]},
}
NONE = "'NoneType' object has no attribute 'as_numpy'"


@pytest.mark.parametrize(
    ("kind", "text", "line", "advice"),
    [
        ("KeyError", "'value'", 'self.k = config["parameters"]["k"]["value"]', PARAMETER),
        ("KeyError", "'value'", "k = params['k']['value']", PARAMETER),
        ("KeyError", "'scal'", 'config["parameters"]["scal"]', "the config has no parameter 'scal': did you mean "
         "'scale'?"),
        ("KeyError", "'threshold'", 'p = parameters["threshold"]["string_value"]', "the config has no parameter "
         "'threshold': it has scale, k"),
        ("KeyError", "'inputs'", 'json.loads(x); config["inputs"]', "the config has no field 'inputs': did you mean "
         "'input'?"),
        ("KeyError", "'inputs'", 'table["inputs"]', ""),
        ("KeyError", "3", "table[3]", ""),
        ("KeyError", "'k'", 'other["k"]', ""),
        ("TypeError", "unsupported operand type(s) for +: 'dict' and 'int'", 'cfg["parameters"]["k"] + 1', PARAMETER),
        ("TypeError", "'>' not supported between instances of 'dict' and 'int'", "params['k'] > 3", PARAMETER),
        ("TypeError", "unsupported operand type(s) for +: 'dict' and 'int'", "{} + 1", ""),
        ("AttributeError", NONE, 'pb_utils.get_input_tensor_by_name(request, "in").as_numpy()', "the config has no "
         "input 'in': did you mean 'IN'?"),
        ("AttributeError", NONE, "pb_utils.get_input_tensor_by_name(r, 'X').as_numpy()", "the config has no input 'X': "
         "it has IN, MASK, START, STATE"),
        ("AttributeError", NONE, 'get_input_tensor_by_name(r, "END").as_numpy()', "the config has no input 'END': "
         'sequence_batching { control_input [ { name: "END" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: '
         "[0, 1] } ] } ] } in a %%triton_config cell brings it"),
        ("AttributeError", NONE, 'get_input_tensor_by_name(r, "CORRID").as_numpy()', "the config has no input 'CORRID'"
         ': sequence_batching { control_input [ { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: '
         "TYPE_UINT64 } ] } ] } in a %%triton_config cell brings it"),
        ("AttributeError", NONE, "get_input_tensor_by_name(r, 'Start').as_numpy()", "the config has no input 'Start': "
         "did you mean 'START'?"),
        ("AttributeError", NONE, "pb_utils.get_input_tensor_by_name(r, 'MASK').as_numpy()", ""),  # it is optional
        ("AttributeError", NONE, "pb_utils.get_input_tensor_by_name(r, 'STATE').as_numpy()", ""),
        ("AttributeError", "'int' object has no attribute 'as_numpy'", "get_input_tensor_by_name(r, 'X')", ""),
    ],
)  # fmt: skip
def test_a_name_that_the_config_does_not_have(kind: str, text: str, line: str, advice: str) -> None:
    assert line_hint(RemoteException(kind, text, (Frame("model.py", 2, "f"),)), CONFIG, ["\n", line]) == advice


def test_a_name_on_another_line_than_the_one_that_failed() -> None:
    lines = ['a = pb_utils.get_input_tensor_by_name(request, "mask")\n', "a.as_numpy()\n"]
    exception = RemoteException("AttributeError", NONE, (Frame("model.py", 2, "f"),))
    assert line_hint(exception, CONFIG, lines) == "the config has no input 'mask': did you mean 'MASK'?"


def test_a_config_without_parameters() -> None:
    exception = RemoteException("KeyError", "'k'", (Frame("model.py", 1, "initialize"),))
    advice = "the config has no parameters: --param k=VALUE at %%triton_model writes one"
    assert line_hint(exception, {}, ['config["parameters"]["k"]']) == advice
    assert line_hint(RemoteException("KeyError", "'parameters'", exception.frames), {}, ['c["parameters"]["k"]']) == (
        "the config has no parameters: --param KEY=VALUE at %%triton_model writes one"
    )
