from __future__ import annotations

from typing import Any

import pytest

from tritonlab.core.config.model_config import ConfigError, ModelConfig, parse_pbtxt, to_dict, to_json
from tritonlab.core.config.model_config_rules import (
    InstanceSpec,
    autofill,
    config_differs,
    instance_args,
    instance_specs,
    is_decoupled,
    is_ensemble,
    merge_auto_complete,
    normalize_instance_groups,
)


def config(text: str, *, files: tuple[str, ...] = ("model.py",), name: str = "m") -> ModelConfig:
    return autofill(parse_pbtxt(text, ""), model_name=name, files=files)


def grouped(text: str, gpu_ids: tuple[int, ...] = ()) -> ModelConfig:
    return normalize_instance_groups(config(text), gpu_ids=gpu_ids)


@pytest.mark.parametrize(
    ("files", "backend", "platform"),
    [
        (("model.py",), "python", ""),
        (("model.py", "model.pt"), "pytorch", "pytorch_libtorch"),
        (("model.py", "model.onnx", "model.plan"), "tensorrt", "tensorrt_plan"),
        (("model.py", "model.savedmodel/"), "tensorflow", "tensorflow_savedmodel"),
        (("model.py", "model.savedmodel"), "python", ""),  # no directory
        (("model.py", "model.xml"), "openvino", ""),
    ],
)
def test_the_first_known_file_tells_the_backend(files: tuple[str, ...], backend: str, platform: str) -> None:
    found = config("", files=files)
    assert (found.name, found.backend, found.platform) == ("m", backend, platform)


def test_the_name_may_tell_the_backend() -> None:
    found = config("", files=("x.txt",), name="a.b.foo")
    assert (found.backend, found.default_model_filename) == ("b.foo", "model.b.foo")
    with pytest.raises(ConfigError) as caught:
        config("", files=("x.txt",))
    assert caught.value.reason == (
        "Invalid model name: Could not determine backend for model 'm' with no backend in model configuration. "
        "Expected model name of the form 'model.<backend_name>'."
    )


def test_a_written_backend_stays_and_python_gets_its_file_name() -> None:
    assert config('backend: "mine"', files=("model.onnx",)).backend == "mine"
    assert config('backend: "python"').default_model_filename == "model.py"
    assert config('backend: "python" default_model_filename: "other.py"').default_model_filename == "other.py"
    assert config('backend: "mine"').default_model_filename == ""
    assert config('platform: "onnxruntime_onnx"').backend == "onnxruntime"
    assert config('backend: "onnxruntime"').platform == "onnxruntime_onnx"


def test_autofill_leaves_its_input_alone() -> None:
    written = parse_pbtxt("dynamic_batching { }", "")
    before = parse_pbtxt("dynamic_batching { }", "")
    autofill(written, model_name="m", files=["model.py"])
    assert written == before


def test_schedulers_get_their_defaults() -> None:
    assert list(config("max_batch_size: 4 dynamic_batching { }").dynamic_batching.preferred_batch_size) == [4]
    assert list(config("dynamic_batching { }").dynamic_batching.preferred_batch_size) == []
    assert list(
        config("max_batch_size: 4 dynamic_batching { preferred_batch_size: [2] }").dynamic_batching.preferred_batch_size
    ) == [2]
    batcher = config("max_batch_size: 4 sequence_batching { oldest { } }").sequence_batching
    assert list(batcher.oldest.preferred_batch_size) == [4]
    assert batcher.max_sequence_idle_microseconds == 1_000_000
    batcher = config("sequence_batching { max_sequence_idle_microseconds: 5 }").sequence_batching
    assert batcher.max_sequence_idle_microseconds == 5
    assert batcher.WhichOneof("strategy_choice") is None


def test_merge_adopts_five_things_only() -> None:
    """Rule 2.4.3."""
    before = config('max_batch_size: 0 input { name: "A" data_type: TYPE_FP32 dims: [1] }')
    returned = to_dict(before)
    returned.update(
        name="other",
        max_batch_size=8,
        input=[{"name": "B", "data_type": "TYPE_INT32", "dims": [2], "optional": True}],
        output=[{"name": "C", "data_type": "TYPE_BF16", "dims": [-1]}],
        dynamic_batching={},
        model_transaction_policy={"decoupled": True},
        instance_group=[{"count": 5}],
        parameters={"a": {"string_value": "b"}},
        backend="other",
    )
    merged = merge_auto_complete(before, returned)
    assert config_differs(before, merged) == {
        "max_batch_size",
        "input",
        "output",
        "dynamic_batching",
        "model_transaction_policy",
    }
    assert [t.name for t in merged.input] == ["B"]
    assert list(merged.dynamic_batching.preferred_batch_size) == [8]
    assert [t.name for t in before.input] == ["A"]


def test_merge_keeps_a_configured_scheduler() -> None:
    before = config("max_batch_size: 4 dynamic_batching { }")
    returned: dict[str, Any] = to_dict(before)
    del returned["dynamic_batching"]
    returned["sequence_batching"] = {"oldest": {}}
    assert merge_auto_complete(before, returned) == before


def test_merge_of_nothing_removes_inputs_and_batching() -> None:
    before = config('max_batch_size: 4 input { name: "a" data_type: TYPE_FP32 dims: [1] }')
    merged = merge_auto_complete(before, {})
    assert (merged.max_batch_size, len(merged.input), merged.backend) == (0, 0, "python")


GPU_GROUPS = [
    # rule 5.1.4: groups, GPUs of the machine, (kind, device) of the instances
    ("", (), [("CPU", 0)]),
    ("", (0, 1), [("GPU", 0), ("GPU", 1)]),
    ("instance_group { }", (), [("CPU", 0)]),
    ("instance_group { }", (3,), [("GPU", 3)]),
    ("instance_group { gpus: [3] }", (3, 4), [("GPU", 3)]),
    ("instance_group { gpus: [5] }", (3, 4), [("CPU", 0)]),
    ("instance_group { kind: KIND_CPU count: 2 }", (3,), [("CPU", 0), ("CPU", 0)]),
    ("instance_group { kind: KIND_MODEL }", (3,), [("MODEL", 0)]),
    ("instance_group { kind: KIND_GPU count: 2 gpus: [4, 3] }", (3, 4), [("GPU", 4), ("GPU", 3)] * 2),
]


@pytest.mark.parametrize(("text", "gpu_ids", "expected"), GPU_GROUPS)
def test_kinds_and_devices(text: str, gpu_ids: tuple[int, ...], expected: list[tuple[str, int]]) -> None:
    assert [(spec.kind, spec.device_id) for spec in instance_specs(grouped(text, gpu_ids))] == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["m_0"]),
        ("instance_group { }", ["m_0_0"]),
        ("instance_group { count: -3 }", ["m_0_0"]),
        ('instance_group { count: 2 } instance_group { name: "x" }', ["m_0_0", "m_0_1", "x_0"]),
        ('instance_group { name: "x" } instance_group { }', ["x_0", "m_1_0"]),
    ],
)
def test_instance_names(text: str, names: list[str]) -> None:
    """Rule 2.3.2."""
    assert [spec.name for spec in instance_specs(grouped(text))] == names


def test_an_ensemble_has_no_instances() -> None:
    ensemble = config('platform: "ensemble"', files=())
    assert is_ensemble(ensemble)
    assert instance_specs(normalize_instance_groups(ensemble, gpu_ids=(0,))) == []


def test_instance_args_are_all_text() -> None:
    """Rule 2.3.1."""
    full = grouped("instance_group { passive: true }", ())
    (spec,) = instance_specs(full)
    assert spec == InstanceSpec(name="m_0_0", kind="CPU", device_id=0, group="m_0", passive=True)
    assert instance_args(full, spec, model_directory="models/m", version=3) == {
        "model_config": to_json(full),
        "model_instance_kind": "CPU",
        "model_instance_name": "m_0_0",
        "model_instance_device_id": "0",
        "model_repository": "models/m",
        "model_version": "3",
        "model_name": "m",
    }


def test_decoupled() -> None:
    assert is_decoupled(config("model_transaction_policy { decoupled: true }"))
    assert not is_decoupled(config("model_transaction_policy { }"))
    assert not is_decoupled(config(""))


def test_differences_are_top_level_and_know_presence() -> None:
    old = config("max_batch_size: 4")
    assert config_differs(old, config("max_batch_size: 4")) == set()
    assert config_differs(old, config("max_batch_size: 8")) == {"max_batch_size"}
    assert config_differs(old, config("max_batch_size: 4 model_transaction_policy { }")) == {"model_transaction_policy"}
    changed = config("max_batch_size: 4 instance_group { } version_policy { all { } }")
    assert config_differs(old, changed) == {"instance_group", "version_policy"}
