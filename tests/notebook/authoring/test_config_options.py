from __future__ import annotations

import re

import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.unknown_option import UnknownOption
from tritonlab.notebook.authoring.config_options import ConfigOptions, parse_tensor
from tritonlab.notebook.authoring.config_text import ConfigText
from tritonlab.notebook.authoring.errors import OptionError


def test_every_option_lands_in_its_field() -> None:
    options = ConfigOptions(
        max_batch_size=8,
        instances=2,
        kind="cpu",
        dynamic_batching=100,
        preferred_batch_size=(4, 8),
        decoupled=True,
        inputs=("A:FP32[-1,4]", "B:STRING[1]?"),
        outputs=("C:BF16[]",),
        parameters={"k": "v=w"},
    )
    assert options.apply(ConfigText()) == parse_pbtxt(
        """
        max_batch_size: 8
        input { name: "A" data_type: TYPE_FP32 dims: [-1, 4] }
        input { name: "B" data_type: TYPE_STRING dims: [1] optional: true }
        output [ { name: "C" data_type: TYPE_BF16 } ]
        dynamic_batching { preferred_batch_size: [4, 8] max_queue_delay_microseconds: 100 }
        instance_group [ { count: 2 kind: KIND_CPU } ]
        model_transaction_policy { decoupled: true }
        parameters { key: "k" value { string_value: "v=w" } }
        """,
        "",
    )


@pytest.mark.parametrize(
    ("options", "group"),
    [
        ({"gpus": 1}, "count: 1 kind: KIND_GPU gpus: [ 1 ]"),
        ({"gpus": (0, 1), "instances": 2}, "count: 2 kind: KIND_GPU gpus: [ 0, 1 ]"),
        ({"gpus": (0,), "kind": "auto"}, "count: 1 kind: KIND_AUTO gpus: [ 0 ]"),
    ],
)
def test_gpus_mean_instances_on_each(options: dict[str, object], group: str) -> None:
    assert ConfigOptions.from_keywords(**options).apply(ConfigText()) == parse_pbtxt(
        f"instance_group {{ {group} }}", ""
    )


def test_dynamic_batching_without_a_delay_is_there_and_empty() -> None:
    config = ConfigOptions(dynamic_batching=True).apply(ConfigText())
    assert config.HasField("dynamic_batching")
    assert config.dynamic_batching.max_queue_delay_microseconds == 0


def test_a_delay_of_0_microseconds_is_dynamic_batching_too() -> None:
    assert ConfigOptions(dynamic_batching=0).apply(ConfigText()).HasField("dynamic_batching")
    assert not ConfigOptions(dynamic_batching=False).apply(ConfigText()).HasField("dynamic_batching")


def test_no_options_change_nothing() -> None:
    config = ConfigText("max_batch_size: 4\n")
    assert ConfigOptions().apply(config) == config.message


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("max_batch_size: 4", {"max_batch_size": 8}, "--max-batch-size and the cell, line 12, both set max_batch_size"),
        # a scalar written with its default value is not in the message, but it is in the text
        ("max_batch_size: 0", {"max_batch_size": 8}, "both set max_batch_size"),
        ("instance_group [ { count: 3 } ]", {"instances": 2}, "--instances and the cell"),
        ('input { name: "A" data_type: TYPE_FP32 dims: 1 }', {"inputs": ("A:FP32[2]",)}, "both set input"),
        ("dynamic_batching { }\nmax_batch_size: 2", {"dynamic_batching": 5}, "both set dynamic_batching"),
        ('parameters { key: "k" value { string_value: "a" } }', {"parameters": {"k": "b"}}, "--param k=b and the cell"),
    ],
)
def test_an_option_that_contradicts_the_text_is_an_error(text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        ConfigOptions.from_keywords(**options).apply(ConfigText("\n" + text, "the cell", 10))


def test_an_option_that_repeats_the_text_is_none() -> None:
    config = ConfigOptions(max_batch_size=4).apply(ConfigText("# max_batch_size: 2\nmax_batch_size: 4"))
    assert config.max_batch_size == 4


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("IN:FP32[-1,4]", ("IN", DataType.FP32, [-1, 4], False)),
        ("IN:TYPE_INT8[ 3 ]", ("IN", DataType.INT8, [3], False)),
        ("a:b:string[1]?", ("a:b", DataType.BYTES, [1], True)),
        ("S:BOOL[]", ("S", DataType.BOOL, [], False)),
    ],
)
def test_tensors_are_read(spec: str, found: tuple[object, ...]) -> None:
    assert parse_tensor(spec) == found


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("IN", "is not NAME:TYPE[DIMS]"),
        ("IN:FLOAT[1]", "the datatype 'FLOAT' does not exist; use one of BOOL"),
        ("IN:INVALID[1]", "the datatype 'INVALID' does not exist"),
        ("IN:FP32[1,,2]", "are not integers"),
    ],
)
def test_a_tensor_that_cannot_be_read_says_why(spec: str, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        parse_tensor(spec)


@pytest.mark.parametrize(
    "options",
    [
        {"max_batch_size": -1},
        {"max_batch_size": "8"},
        {"instances": 0},
        {"instances": 1.5},
        {"kind": "tpu"},
        {"gpus": -1},
        {"gpus": ["0"]},
        {"dynamic_batching": -1},
        {"dynamic_batching": "100"},
        {"outputs": "O:FP32[1]?"},
        {"inputs": "I:FP32[n]"},
    ],
)
def test_values_no_config_can_hold(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        ConfigOptions.from_keywords(**options)  # not later: a draft would remember them


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(UnknownOption, match=r"^load\(\) has no option 'max_batch': did you mean 'max_batch_size'\?$"):
        ConfigOptions.from_keywords(max_batch=8)
    with pytest.raises(UnknownOption, match=r"it takes max_batch_size, .*, config, files, version, base, sample$"):
        ConfigOptions.from_keywords(nope=8)
