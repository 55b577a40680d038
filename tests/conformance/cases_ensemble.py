"""Ensembles whose structure the server refuses (rule 5.7.2): data like that of `cases_config.py`."""

from __future__ import annotations

from .cases_config import MODEL, POLL, ConfigCase


def _step(inputs: str, outputs: str, model: str = "absent") -> str:
    """Return a step; `inputs` and `outputs` are ensemble tensors, one letter each."""
    maps = [f'input_map {{ key: "IN{n}" value: "{t}" }}' for n, t in enumerate(inputs)]
    maps += [f'output_map {{ key: "OUT{n}" value: "{t}" }}' for n, t in enumerate(outputs)]
    return f'step {{ model_name: "{model}" {" ".join(maps)} }} '


_X = 'input { name: "X" data_type: TYPE_FP32 dims: [1] } '
_Y = 'output { name: "Y" data_type: TYPE_FP32 dims: [1] } '


def _ensemble(steps: str, *, head: str = 'platform: "ensemble" ', io: str = _X + _Y, more: str = "") -> str:
    return f"{head}{io}ensemble_scheduling {{ {steps} }} {more}"


def _unconnected(tensor: str) -> str:
    not_written = "output 'Y' for ensemble '{m}' is not written"
    return f"{not_written}: at least one of its depending tensors, '{tensor}', is not connected"


# fmt: off
ENSEMBLE_CASES = [
    ConfigCase("no_step", ("5.7.2",), _ensemble(""), POLL, "must specify 'step' for ensemble '{m}'"),
    ConfigCase("no_model", ("5.7.2",), _ensemble(_step("X", "Y", model="")), POLL,
        "must specify 'model_name' in step 0 of ensemble '{m}'"),
    ConfigCase("no_input_map", ("5.7.2",), _ensemble(_step("", "Y")), POLL,
        "must specify 'input_map' in step 0 of ensemble '{m}'"),
    ConfigCase("no_output_map", ("5.7.2",), _ensemble(_step("X", "Y") + _step("Y", "")), POLL,
        "must specify 'output_map' in step 1 of ensemble '{m}'"),
    ConfigCase("with_group", ("5.7.2",), _ensemble(_step("X", "Y"), more="instance_group { }"), POLL,
        "instance group should not be specified for ensemble '{m}'"),
    ConfigCase("with_optimization", ("5.7.2",), _ensemble(_step("X", "Y"), more="optimization { }"), POLL,
        "optimization should not be specified for ensemble '{m}'"),
    ConfigCase("with_warmup", ("5.7.2",), _ensemble(_step("X", "Y"), more="model_warmup { }"), POLL,
        "model_warmup can not be specified for ensemble '{m}'"),
    ConfigCase("python_ensemble", ("5.7.2",), _ensemble(_step("X", "Y"), head='backend: "python" '), POLL,
        "ensemble scheduling cannot be set for model '{m}' whose platform is not ensemble"),
    ConfigCase("forgotten_platform", ("5.1.1", "5.7.2"), _ensemble(_step("X", "Y"), head=""), POLL,
        "ensemble scheduling cannot be set for model '{m}' whose platform is not ensemble"),
    ConfigCase("wrong_platform", ("5.3.1",), _ensemble(_step("X", "Y"), head='platform: "foo" '), POLL,
        "unexpected platform type 'foo' for {m}"),
    ConfigCase("no_scheduling", ("5.7.2",), 'platform: "ensemble"', POLL,
        "ensemble scheduling must be set for ensemble {m} whose platform is ensemble"),
    ConfigCase("dynamic_ensemble", ("5.7.2",), 'platform: "ensemble" dynamic_batching { }', POLL,
        "ensemble scheduling must be set for ensemble {m} whose platform is ensemble"),
    ConfigCase("unread_input", ("5.7.2",), _ensemble(_step("Q", "Y")), POLL,
        "ensemble input 'X' for ensemble {m}' is not used"),
    ConfigCase("unwritten_output", ("5.7.2",), _ensemble(_step("X", "Q")), POLL,
        "ensemble output 'Y' for ensemble {m}' is not used"),
    ConfigCase("unknown_source", ("5.7.2",), _ensemble(_step("X", "Z") + _step("Q", "Y")), POLL, _unconnected("Q")),
    ConfigCase("one_unknown_source", ("5.7.2",), _ensemble(_step("XQ", "Y")), POLL, _unconnected("Q")),
    ConfigCase("far_unknown_source", ("5.7.2",), _ensemble(_step("X", "A") + _step("AB", "C") + _step("C", "Y")), POLL,
        _unconnected("B")),
    ConfigCase("no_input", ("5.7.2",), _ensemble(_step("X", "Y"), io=_Y), POLL, _unconnected("X")),
    ConfigCase("cycle", ("5.7.2",), _ensemble(_step("XZ", "Y") + _step("Y", "Z")), POLL,
        "output 'Y' for ensemble '{m}' is not written"),
    ConfigCase("unread_tensor", ("5.7.2",), _ensemble(_step("X", "YZ")), POLL,
        "ensemble tensor 'Z' is unused in ensemble '{m}'"),
    ConfigCase("unread_chain", ("5.7.2",), _ensemble(_step("X", "Y") + _step("X", "Z") + _step("Z", "W")), POLL,
        "ensemble tensor 'W' is unused in ensemble '{m}'"),
    ConfigCase("no_output", ("5.7.2",), _ensemble(_step("X", "Y"), io=_X), POLL,
        "ensemble tensor 'Y' is unused in ensemble '{m}'"),
    ConfigCase("written_twice", ("5.7.2",), _ensemble(_step("X", "Y") + _step("X", "Y")), POLL,
        "ensemble tensor 'Y' can appear in an output map only once for ensemble '{m}' step 1"),
    ConfigCase("written_twice_in_step", ("5.7.2",), _ensemble(_step("X", "ZZ") + _step("Z", "Y")), POLL,
        "ensemble tensor 'Z' can appear in an output map only once for ensemble '{m}' step 0"),
    ConfigCase("negative_ensemble", ("5.3.1",), _ensemble(_step("X", "Y"), more="max_batch_size: -1"), POLL,
        "'max_batch_size' must be non-negative value for {m}"),
    ConfigCase("absent_model", ("5.7.3",), _ensemble(_step("X", "Y")), MODEL,
        "ensemble {m} contains models that are not available or ambiguous: absent"),
]
