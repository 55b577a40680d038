"""Configurations and what a server answers to them: data for both sides and for the unit tests of `core`.

Every text was read from tritonserver 2.51. `{m}` stands for the model's name, which is the caller's choice. Each model
directory has `1/model.py`, a class with `execute` alone, unless the case has `completion`: the body of its
`auto_complete_config(config)`, where `d` is `config.as_dict()`.
"""

from __future__ import annotations

from typing import NamedTuple

#: READY, and the configuration is served
OK = "ok"
#: client: 500 `failed to load '{m}', failed to poll from model repository`; the text is the reason in the server's log
POLL = "poll"
#: client: 400 `load failed for model '{m}': version 1 is at UNAVAILABLE state: Invalid argument: <text>;\n`
FINAL = "final"
#: client: 400 `load failed for model '{m}': <text>\n`
MODEL = "model"


class ConfigCase(NamedTuple):
    """A configuration and what its load ends with. `config` is the text of config.pbtxt, None for no such file."""

    id: str
    rules: tuple[str, ...]
    config: str | None
    outcome: str
    text: str = ""
    completion: str = ""


def _python(text: str) -> str:
    return f'backend: "python" {text}'


def _dynamic(text: str, batch: int = 4) -> str:
    return _python(f"max_batch_size: {batch} dynamic_batching {{ {text} }}")


def _sequence(text: str) -> str:
    return _python(f"max_batch_size: 4 sequence_batching {{ {text} }}")


def _control(name: str, kind: str, values: str) -> str:
    return f'control_input {{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{kind} {values} }} }} '


def _input(text: str) -> str:
    return _python(f'input {{ name: "a" data_type: TYPE_FP32 {text} }}')


def _state(initial: str, dims: str = "[2, -1]") -> str:
    state = f'input_name: "si" output_name: "so" data_type: TYPE_FP32 dims: {dims} {initial}'
    return _sequence(f"state {{ {state} }}")


def _initial(text: str, name: str = 'name: "z"', data: str = "zero_data: true") -> str:
    return f"initial_state {{ {name} {text} {data} }}"


_FALSE_TRUE = "'int32_false_true', 'fp32_false_true' or 'bool_false_true'"
_CORRID_TYPES = "Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING"
_DIMS = "must be integer >= 1, or -1 to indicate a variable-size dimension for {m}"
_SCALAR = " for non-batching model as scalar tensors are not supported for {m}"
_FLOATS = "fp32_false_true: [0, 1]"
_DELAY = "timeout_action: DELAY"

# fmt: off
FILE_CASES = [
    ConfigCase("none", ("2.4.5", "5.1.1", "5.3.3"), None, OK),
    ConfigCase("only_size", ("5.1.1",), "max_batch_size: 1", OK),
    ConfigCase("file_name", ("5.1.1",), 'default_model_filename: "model.py"', OK),
    ConfigCase("other_file_name", ("5.1.1", "5.3.1"), 'default_model_filename: "foo.py"', POLL,
        "unexpected platform type '' for {m}"),
    ConfigCase("any_platform", ("5.3.3",), _python('platform: "anything"'), OK),
    ConfigCase("known_platform", ("5.3.1",), _python('platform: "onnxruntime_onnx"'), OK),
    ConfigCase("platform_only", ("5.3.1",), 'platform: "python"', POLL, "unexpected platform type 'python' for {m}"),
    ConfigCase("wrong_pair", ("5.3.1",), 'platform: "python" backend: "onnxruntime"', POLL,
        "unexpected 'platform' and 'backend' pair, got:python, onnxruntime"),
    ConfigCase("no_platform", ("5.3.1",), 'backend: "tensorflow"', POLL,
        "unexpected 'platform' and 'backend' pair, got:, tensorflow"),
    ConfigCase("ensemble_backend", ("5.3.1",), _python('platform: "ensemble"'), POLL,
        "Ensemble model '{m}' must have platform type 'ensemble' and empty backend type"),
    ConfigCase("other_name", ("2.5.4", "5.3.1"), 'name: "other"', POLL,
        "unexpected directory name '{m}' for model 'other', directory name must equal model name"),
    ConfigCase("negative_size", ("5.3.1",), _python("max_batch_size: -1"), POLL,
        "'max_batch_size' must be non-negative value for {m}"),
    ConfigCase("escapes", ("2.5.4",),
        _python(r'parameters { key: "re" value { string_value: "\\d \? \101 \ud83d\ude00" } }'), OK),
    ConfigCase("kind_model", ("5.3.3",), _python("instance_group { kind: KIND_MODEL }"), OK),
    ConfigCase("same_input_twice", ("5.3.3",), _input("dims: [1]") + _input("dims: [1]").removeprefix(_python("")), OK),
    ConfigCase("empty_policy", ("5.1.3",), _python("version_policy { }"), OK),
    ConfigCase("agent", ("5.1.8",), _python('model_repository_agents { agents { name: "decrypt" } } max_batch_size: -1'), POLL,
        "unable to find 'libtritonrepoagent_decrypt.so' for repo agent 'decrypt', searched: /opt/tritonserver/repoagents"),
    ConfigCase("no_versions", ("2.1.1", "5.11.6"), _python("version_policy { latest { num_versions: 0 } }"), MODEL,
        "at least one version must be available under the version policy of model '{m}'"),
    ConfigCase("absent_version", ("2.1.1", "5.11.6"), _python("version_policy { specific { versions: [7] } }"), MODEL,
        "at least one version must be available under the version policy of model '{m}'"),
]

#: Two things are wrong: which one is reported.
ORDER_CASES = [
    ConfigCase("name_after_size", ("5.3.1",), _python('name: "other" max_batch_size: -1'), POLL,
        "'max_batch_size' must be non-negative value for other"),
    ConfigCase("name_after_platform", ("5.3.1",), 'platform: "foo" name: "other"', POLL,
        "unexpected platform type 'foo' for other"),
    ConfigCase("size_first", ("5.3.1",), _python("max_batch_size: -1 dynamic_batching { preferred_batch_size: [0] }"), POLL,
        "'max_batch_size' must be non-negative value for {m}"),
    ConfigCase("start_before_corrid", ("5.3.1",),
        _sequence("oldest { preferred_batch_size: [9] } " + _control("S", "CORRID", "") + _control("T", "START", "")), POLL,
        f"sequence batching must specify either {_FALSE_TRUE} for CONTROL_SEQUENCE_START for {{m}}"),
    ConfigCase("group_before_input", ("5.3.2",),
        _python('input { name: "a" dims: [1] } instance_group { kind: KIND_CPU gpus: [0] }'), FINAL,
        "instance group {m}_0 of model {m} has kind KIND_CPU but specifies one or more GPUs"),
    ConfigCase("group_before_state", ("5.3.2",),
        _sequence('state { initial_state { dims: [1] } }') + " instance_group { kind: KIND_CPU gpus: [0] }", FINAL,
        "instance group {m}_0 of model {m} has kind KIND_CPU but specifies one or more GPUs"),
    ConfigCase("input_before_output", ("5.3.2",), _python('input { name: "a" dims: [0] } output { }'), FINAL,
        "model input 'a' must specify 'data_type' for {m}"),
    ConfigCase("reshape_before_format", ("5.3.2",), _input("dims: [4] format: FORMAT_NHWC reshape { shape: [5] }"), FINAL,
        "model input 'a' has different size for dims and reshape for {m}"),
    ConfigCase("gpu_before_profile", ("5.3.2",), _python('instance_group { profile: "x" gpus: [0] kind: KIND_CPU }'), FINAL,
        "instance group {m}_0 of model {m} has kind KIND_CPU but specifies one or more GPUs"),
]

#: The reason names the file: `failed to read text proto from <repository>/{m}/config.pbtxt`.
UNREADABLE_CASES = [
    ConfigCase("unknown_field", ("5.3.1",), _python("foo: 1"), POLL),
    ConfigCase("unknown_type", ("5.3.1",), _python('input { name: "a" data_type: TYPE_FOO dims: [1] }'), POLL),
    ConfigCase("field_twice", ("5.3.1",), _python("max_batch_size: 1 max_batch_size: 2"), POLL),
    ConfigCase("two_schedulers", ("5.3.1",), _python("dynamic_batching { } sequence_batching { }"), POLL),
    ConfigCase("backslash", ("2.5.4", "5.3.1"), _python(r'parameters { key: "re" value { string_value: "\d+" } }'), POLL),
    ConfigCase("open_brace", ("5.3.1",), _python("dynamic_batching {"), POLL),
]

DYNAMIC_CASES = [
    ConfigCase("without_batching", ("5.3.3",), _dynamic("", 0), OK),
    ConfigCase("size_0", ("5.3.1",), _dynamic("preferred_batch_size: [0]"), POLL,
        "dynamic batching preferred size must be positive for {m}"),
    ConfigCase("size_5", ("5.3.1",), _dynamic("preferred_batch_size: [2, 5]"), POLL,
        "dynamic batching preferred size must be <= max batch size for {m}"),
    ConfigCase("size_without_batching", ("5.3.1",), _dynamic("preferred_batch_size: [1]", 0), POLL,
        "dynamic batching preferred size must be <= max batch size for {m}"),
    ConfigCase("no_default_level", ("5.3.1",), _dynamic("priority_levels: 2"), POLL,
        "default priority level must be in range [1, 2] for {m}"),
    ConfigCase("default_level_3", ("5.3.1",), _dynamic("priority_levels: 2 default_priority_level: 3"), POLL,
        "default priority level must be in range [1, 2] for {m}"),
    ConfigCase("policy_level_3", ("5.3.1",),
        _dynamic("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } }"), POLL,
        "priority queue policy must have priority level in range [1, 2] for {m}"),
    ConfigCase("levels_not_used", ("5.3.1",),
        _dynamic("default_priority_level: 7 priority_queue_policy { key: 3 value { } }"), OK),
    ConfigCase("ordered_levels", ("5.3.1",),
        _dynamic("priority_levels: 2 default_priority_level: 1 preserve_ordering: true"), POLL,
        "Only one priority level is allowed when 'preserve_ordering' is true for {m}"),
    ConfigCase("ordered_delay", ("5.3.1",),
        _dynamic(f"preserve_ordering: true default_queue_policy {{ {_DELAY} default_timeout_microseconds: 1 }}"), POLL,
        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {m}"),
    ConfigCase("ordered_delay_of_level", ("5.3.1",),
        _dynamic("priority_levels: 1 default_priority_level: 1 preserve_ordering: true priority_queue_policy "
        "{ key: 1 value { timeout_action: DELAY default_timeout_microseconds: 1 } }"), POLL,
        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {m}"),
    ConfigCase("ordered_delay_without_timeout", ("5.3.1",),
        _dynamic("preserve_ordering: true default_queue_policy { timeout_action: DELAY }"), OK),
]

SEQUENCE_CASES = [
    ConfigCase("nameless_control", ("5.3.1",),
        _sequence("control_input { control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } }"), POLL,
        "sequence batching control tensor must have a name for {m}"),
    ConfigCase("empty_control", ("5.3.1",), _sequence("control_input { }"), POLL,
        "sequence batching control tensor must have a name for {m}"),
    ConfigCase("control_without_kind", ("5.3.1",), _sequence('control_input { name: "S" }'), OK),
    ConfigCase("two_kinds_in_one", ("5.3.1",),
        _sequence('control_input { name: "S" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [0, 1] } '
        "control { kind: CONTROL_SEQUENCE_END fp32_false_true: [0, 1] } }"), OK),
    ConfigCase("tensor_twice", ("5.3.1",), _sequence(_control("S", "START", _FLOATS) + _control("S", "END", _FLOATS)),
        POLL, "sequence batching control tensor 'S' is specified for multiple control kinds for {m}"),
    ConfigCase("kind_twice", ("5.3.1",), _sequence(_control("S", "START", _FLOATS) + _control("T", "START", _FLOATS)),
        POLL, "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for {m}"),
    ConfigCase("corrid_twice", ("5.3.1",),
        _sequence(_control("S", "CORRID", "data_type: TYPE_INT32") + _control("T", "CORRID", "data_type: TYPE_INT32")),
        POLL, "sequence batching specifies multiple CONTROL_SEQUENCE_CORRID tensors for {m}"),
    ConfigCase("no_values", ("5.3.1",), _sequence(_control("S", "START", "")), POLL,
        f"sequence batching must specify either {_FALSE_TRUE} for CONTROL_SEQUENCE_START for {{m}}"),
    ConfigCase("two_values", ("5.3.1",),
        _sequence(_control("S", "START", "fp32_false_true: [0, 1] int32_false_true: [0, 1]")), POLL,
        "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and "
        "'bool_false_true' for CONTROL_SEQUENCE_START for {m}"),
    ConfigCase("one_float", ("5.3.1",), _sequence(_control("S", "READY", "fp32_false_true: [0]")), POLL,
        "sequence batching control 'fp32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_READY for {m}"),
    ConfigCase("one_int", ("5.3.1",), _sequence(_control("S", "READY", "int32_false_true: [0]")), POLL,
        "sequence batching control 'int32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_READY for {m}"),
    ConfigCase("three_bools", ("5.3.1",), _sequence(_control("S", "END", "bool_false_true: [false, true, true]")), POLL,
        "sequence batching control 'bool_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_END for {m}"),
    ConfigCase("corrid_values", ("5.3.1",), _sequence(_control("S", "CORRID", _FLOATS)), POLL,
        f"sequence batching must not specify either {_FALSE_TRUE} for CONTROL_SEQUENCE_CORRID for {{m}}"),
    ConfigCase("corrid_float", ("5.3.1",), _sequence(_control("S", "CORRID", "data_type: TYPE_FP32")), POLL,
        f"unexpected data type for control CONTROL_SEQUENCE_CORRID for {{m}}. {_CORRID_TYPES}"),
    ConfigCase("corrid_untyped", ("5.3.1",), _sequence(_control("S", "CORRID", "")), POLL,
        f"unexpected data type for control CONTROL_SEQUENCE_CORRID for {{m}}. {_CORRID_TYPES}"),
    ConfigCase("corrid_string", ("5.3.1",), _sequence(_control("S", "CORRID", "data_type: TYPE_STRING")), OK),
    ConfigCase("start_with_type", ("5.3.1",),
        _sequence(_control("S", "START", "fp32_false_true: [0, 1] data_type: TYPE_FP32")), OK),
    ConfigCase("oldest_0", ("5.3.1",), _sequence("oldest { preferred_batch_size: [0] }"), POLL,
        "sequence batching preferred batch size must be positive for {m}"),
    ConfigCase("oldest_5", ("5.3.1",), _sequence("oldest { preferred_batch_size: [5] }"), POLL,
        "sequence batching preferred batch size must be <= max batch size for {m}"),
    ConfigCase("slots_over_1", ("5.3.1",), _sequence("direct { minimum_slot_utilization: 1.5 }"), POLL,
        "sequence batching minimum slot utilization must be in range (0.0, 1.0] for {m}"),
    ConfigCase("slots_below_0", ("5.3.1",), _sequence("direct { minimum_slot_utilization: -0.5 }"), POLL,
        "sequence batching minimum slot utilization must be in range (0.0, 1.0] for {m}"),
    ConfigCase("slots_0", ("5.3.1",), _sequence("direct { minimum_slot_utilization: 0 }"), OK),
    ConfigCase("cached_decoupled", ("5.3.1", "5.9.1"),
        _python("response_cache { enable: true } model_transaction_policy { decoupled: true }"), POLL,
        "Response Cache does not currently support model {m} with 'decoupled' transaction policy. "
        "Please disable the response cache."),
    ConfigCase("cached_sequence", ("5.3.1", "5.9.1"), _sequence("") + " response_cache { enable: true }", POLL,
        "Response Cache does not currently support model {m} with sequence batching scheduler. "
        "Please disable the response cache."),
    ConfigCase("cached_sequence_before_all", ("5.3.1",), _sequence("direct { minimum_slot_utilization: 3 }")
        + " response_cache { enable: true } model_transaction_policy { decoupled: true }", POLL,
        "Response Cache does not currently support model {m} with sequence batching scheduler. "
        "Please disable the response cache."),
    ConfigCase("state_without_name", ("5.6.11",), _state(_initial("data_type: TYPE_FP32 dims: [2, 3]", name="")), FINAL,
        "Field 'name' must be set when using initial_state for state input 'si'."),
    ConfigCase("state_type", ("5.6.11",), _state(_initial("data_type: TYPE_INT32 dims: [2, 3]")), FINAL,
        "The data type used for 'initial_state' field of state 'si' does not match the state data type."),
    ConfigCase("state_rank", ("5.6.11",), _state(_initial("data_type: TYPE_FP32 dims: [2]")), FINAL,
        "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input "
        "'si'. 1 != 2"),
    ConfigCase("state_dims", ("5.6.11",), _state(_initial("data_type: TYPE_FP32 dims: [5, 3]")), FINAL,
        "'initial_state' dim for input name 'si' doesn't match 'state' dim description. 5 != 2"),
    ConfigCase("state_variable", ("5.6.11",), _state(_initial("data_type: TYPE_FP32 dims: [2, -1]")), FINAL,
        "'initial_state' field for state input name 'si' contains variable dimensions."),
    ConfigCase("state_without_data", ("5.6.11",), _state(_initial("data_type: TYPE_FP32 dims: [2, 3]", data="")), FINAL,
        "initial_state setting expects state'si' to have state_data set"),
    ConfigCase("two_initial_states", ("5.6.11",), _state(_initial("data_type: TYPE_FP32 dims: [2, 3]") * 2), FINAL,
        "initial_state field for state input 'si' must contain exactly one or zero element. Found '2' elements."),
    ConfigCase("state_without_anything", ("5.6.11",), _sequence("state { }"), OK),
    ConfigCase("same_state_twice", ("5.6.11",),
        _sequence('state { input_name: "si" output_name: "so" data_type: TYPE_FP32 dims: [1] } ' * 2), OK),
]

FINAL_CASES = [
    ConfigCase("nameless_input", ("5.3.2",), _python("input { data_type: TYPE_FP32 dims: [1] }"), FINAL,
        "model input must specify 'name' for {m}"),
    ConfigCase("untyped_input", ("5.3.2",), _python('input { name: "a" dims: [1] }'), FINAL,
        "model input 'a' must specify 'data_type' for {m}"),
    ConfigCase("shapeless_input", ("5.3.2",), _input(""), FINAL, "model input 'a' must specify 'dims' for {m}"),
    ConfigCase("dim_0", ("5.3.2",), _input("dims: [0]"), FINAL, "model input 'a' dimension " + _DIMS),
    ConfigCase("dim_minus_2", ("5.3.2",), _input("dims: [3, -2]"), FINAL, "model input 'a' dimension " + _DIMS),
    ConfigCase("nameless_output", ("5.3.2",), _python("output { data_type: TYPE_FP32 dims: [1] }"), FINAL,
        "model output must specify 'name' for {m}"),
    ConfigCase("untyped_output", ("5.3.2",), _python('output { name: "a" dims: [1] }'), FINAL,
        "model output 'a' must specify 'data_type' for {m}"),
    ConfigCase("output_dim_0", ("5.3.2",), _python('output { name: "a" data_type: TYPE_FP32 dims: [0] }'), FINAL,
        "model output 'a' dimension " + _DIMS),
    ConfigCase("scalar", ("5.3.2",), _input("dims: [1] reshape { }"), FINAL,
        "model input 'a' cannot have empty reshape" + _SCALAR),
    ConfigCase("scalar_output", ("5.3.2",), _python('output { name: "a" data_type: TYPE_FP32 dims: [1] reshape { } }'),
        FINAL, "model output 'a' cannot have empty reshape" + _SCALAR),
    ConfigCase("batched_scalar", ("5.3.2",), _input("dims: [1] reshape { }") + " max_batch_size: 2", OK),
    ConfigCase("batched_pair", ("5.3.2",), _input("dims: [2] reshape { }") + " max_batch_size: 2", FINAL,
        "model input 'a' has different size for dims and reshape for {m}"),
    ConfigCase("reshape_0", ("5.3.2",), _input("dims: [4] reshape { shape: [0] }"), FINAL,
        "model input 'a' reshape dimensions " + _DIMS),
    ConfigCase("reshape_size", ("5.3.2",), _input("dims: [4] reshape { shape: [5] }"), FINAL,
        "model input 'a' has different size for dims and reshape for {m}"),
    ConfigCase("reshape_fixed", ("5.3.2",), _input("dims: [4, -1] reshape { shape: [4] }"), FINAL,
        "model input 'a' has different size for dims and reshape for {m}"),
    ConfigCase("reshape_run", ("5.3.2",), _input("dims: [4, -1] reshape { shape: [-1, 5] }"), FINAL,
        "model input 'a' has different size for dims and reshape for {m}"),
    ConfigCase("reshape_order", ("5.3.2",), _input("dims: [2, -1, 2] reshape { shape: [4, -1] }"), FINAL,
        "model input 'a' has different size for dims and reshape for {m}"),
    ConfigCase("reshape_runs", ("5.3.2",), _input("dims: [4, -1, 3] reshape { shape: [2, 2, -1, 3] }"), OK),
    ConfigCase("reshape_variables", ("5.3.2",), _input("dims: [-1, -1] reshape { shape: [-1] }"), FINAL,
        "model input 'a' has different number of variable-size dimensions for dims and reshape for {m}"),
    ConfigCase("nhwc", ("5.3.2",), _input("dims: [4, -1] format: FORMAT_NHWC"), FINAL,
        "model input NHWC/NCHW require 3 dims for {m}"),
    ConfigCase("shape_tensor", ("5.3.2",), _input("dims: [4] is_shape_tensor: true"), FINAL,
        "shape tensors are only supported for TensorRT platform for {m}"),
    ConfigCase("non_linear", ("5.3.2",), _input("dims: [4] is_non_linear_format_io: true"), FINAL,
        "Non-linear IO format is only supported for the TensorRT platform for {m}"),
    ConfigCase("batch_input_sources", ("5.3.2",),
        _input("dims: [4]") + ' batch_input { target_name: "X" data_type: TYPE_FP32 }', FINAL,
        "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for {m}"),
    ConfigCase("batch_input_type", ("5.3.2",),
        _input("dims: [4]") + ' batch_input { target_name: "X" data_type: TYPE_FP64 source_input: "a" }', FINAL,
        "batch input data type must be TYPE_INT32 or TYPE_FP32 for {m}"),
    ConfigCase("batch_input_source", ("5.3.2",),
        _input("dims: [4]") + ' batch_input { target_name: "X" data_type: TYPE_FP32 source_input: "z" }', FINAL,
        "unknown source input name 'z' for {m}"),
    ConfigCase("batch_output_target", ("5.3.2",),
        _input("dims: [4]") + ' batch_output { target_name: "X" source_input: "a" }', FINAL,
        "unknown target output name 'X' for {m}"),
    ConfigCase("cpu_with_gpu", ("5.3.2",), _python("instance_group { kind: KIND_CPU gpus: [0] }"), FINAL,
        "instance group {m}_0 of model {m} has kind KIND_CPU but specifies one or more GPUs"),
    ConfigCase("model_with_gpu", ("5.3.2",), _python("instance_group { kind: KIND_MODEL gpus: [0] }"), FINAL,
        "instance group {m}_0 of model {m} has kind KIND_MODEL but specifies one or more GPUs"),
    ConfigCase("profile", ("5.3.2",), _python('platform: "pp" instance_group { profile: "x" }'), FINAL,
        "instance group {m}_0 of model {m} and platform ppspecifies profile field which is only supported for "
        "TensorRT models"),
    ConfigCase("negative_count", ("5.1.4",), _python("instance_group { count: -2 }"), OK),
    ConfigCase("same_group_twice", ("5.1.4",), _python('instance_group { name: "x" } instance_group { name: "x" }'),
        OK),
]

#: Only where the machine has no GPU.
NO_GPU_CASES = [
    ConfigCase("no_gpu", ("5.3.2",), _python("instance_group { kind: KIND_GPU }"), FINAL,
        "instance group {m}_0 of model {m} has kind KIND_GPU but no GPUs are available"),
    ConfigCase("auto_with_gpu", ("5.1.4", "5.3.2"), _python("instance_group { gpus: [0] }"), FINAL,
        "instance group {m}_0 of model {m} has kind KIND_CPU but specifies one or more GPUs"),
    ConfigCase("unknown_gpu", ("5.3.2",), _python("instance_group { kind: KIND_GPU gpus: [0] }"), FINAL,
        "instance group {m}_0 of model {m} specifies invalid or unsupported gpu id 0. GPUs with at least the "
        "minimum required CUDA compute compatibility of 6.000000 are: "),
]

#: What `auto_complete_config` returned is validated like a file, but its errors reach the client (rule 2.4.4).
COMPLETION_CASES = [
    ConfigCase("completed_levels", ("2.4.4",), _python(""), FINAL,
        "default priority level must be in range [1, 3] for {m}", "d['dynamic_batching'] = {'priority_levels': 3}"),
    ConfigCase("completed_size", ("2.4.4",), _python(""), FINAL,
        "dynamic batching preferred size must be <= max batch size for {m}",
        "d['max_batch_size'] = 4; d['dynamic_batching'] = {'preferred_batch_size': [8]}"),
    ConfigCase("lowered_size", ("2.4.3", "2.4.4"), _dynamic(""), FINAL,
        "dynamic batching preferred size must be <= max batch size for {m}", "d['max_batch_size'] = 2"),
    ConfigCase("completed_negative", ("2.4.4",), _python(""), FINAL,
        "'max_batch_size' must be non-negative value for {m}", "d['max_batch_size'] = -1"),
    ConfigCase("completed_policy", ("2.4.4",), _python("response_cache { enable: true }"), FINAL,
        "Response Cache does not currently support model {m} with 'decoupled' transaction policy. "
        "Please disable the response cache.", "d['model_transaction_policy'] = {'decoupled': True}"),
    ConfigCase("completed_ensemble", ("2.4.4",), _python(""), FINAL,
        "ensemble scheduling cannot be set for model '{m}' whose platform is not ensemble",
        "d['ensemble_scheduling'] = {'step': []}"),
    ConfigCase("other_edits", ("2.4.3",), _python(""), OK, "",
        "d['name'] = 'other'; d['instance_group'] = [{'count': 5}]; d['response_cache'] = {'enable': True}"),
    ConfigCase("everything_removed", ("2.4.3",), _input("dims: [1]") + " max_batch_size: 4", OK, "", "d.clear()"),
    # With a config.pbtxt an unusable return value is dropped in silence; without one the load fails.
    ConfigCase("unknown_key_dropped", ("2.4.3", "1.17.4"), _python(""), OK, "",
        "d['foo'] = 1; d['max_batch_size'] = 7"),
]

#: `Not found:` takes the place of `Invalid argument:` (rule 1.17.4).
UNUSABLE_COMPLETION_CASES = [
    ConfigCase("bad_type", ("1.17.4",), None, FINAL, "model configuration is not provided for model '{m}'",
        "d['input'] = [{'name': 'a', 'data_type': 'FP32', 'dims': [1]}]"),
    ConfigCase("unknown_key", ("1.17.4",), None, FINAL, "model configuration is not provided for model '{m}'",
        "d['foo'] = 1"),
    ConfigCase("text_for_number", ("1.17.4",), None, FINAL, "model configuration is not provided for model '{m}'",
        "d['max_batch_size'] = 'x'"),
]

#: `config` is JSON for the load API (rule 5.11.3); the directory has `1/model.py` and no config.pbtxt. The reason
#: begins with the text; what follows is protobuf's own.
OVERRIDE_CASES = [
    ConfigCase("number_as_text", ("5.11.3",), '{"backend": "python", "max_batch_size": "4"}', OK),
    ConfigCase("camel_case", ("5.11.3",),
        '{"backend": "python", "maxBatchSize": 4, "input": [{"name": "A", "dataType": "TYPE_FP32", "dims": ["3"]}]}',
        OK),
    ConfigCase("enum_number", ("5.11.3",),
        '{"backend": "python", "input": [{"name": "A", "data_type": 11, "dims": [1.0]}]}', OK),
    ConfigCase("unknown_field", ("5.11.3",), '{"backend": "python", "foo": 1}', POLL, "Invalid config override: "),
    ConfigCase("unknown_type", ("5.11.3",), '{"input": [{"name": "A", "data_type": "FP32", "dims": [1]}]}', POLL,
        "Invalid config override: "),
    ConfigCase("not_a_number", ("5.11.3",), '{"max_batch_size": "x"}', POLL, "Invalid config override: "),
    ConfigCase("not_json", ("5.11.3",), "{bad", POLL, "Invalid config override: "),
    ConfigCase("not_an_object", ("5.11.3",), "[]", POLL, "Invalid config override: "),
    ConfigCase("nothing", ("5.11.3",), "", POLL, "Invalid config override: "),
]
