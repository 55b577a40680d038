from __future__ import annotations

import pytest

from tritonlab.core.config.load_advice import config_advice, load_advice
from tritonlab.core.config.model_config import ConfigError, parse_pbtxt, placeholders


@pytest.mark.parametrize(
    "reason",
    [
        "instance group m_0 of model m has kind KIND_GPU but no GPUs are available",
        "instance group m_0 of model m specifies invalid or unsupported gpu id 0. GPUs with at least the minimum "
        "required CUDA compute compatibility of 6.000000 are: ",
        "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
    ],
)
def test_without_a_gpu_there_are_simulated_ones(reason: str) -> None:
    assert "tritonlab serve --simulated-gpus=1" in load_advice(reason)


def test_where_there_are_gpus_none_is_to_be_simulated() -> None:
    reason = "invalid or unsupported gpu id 5. GPUs with at least the minimum required CUDA compute compatibility"
    assert load_advice(f"{reason} of 6.000000 are: 0, 1") == ""


def test_a_group_of_gpus_may_leave_its_kind_out() -> None:
    assert "leave kind out" in load_advice("instance group m_0 of model m has kind KIND_GPU but no GPUs are available")


@pytest.mark.parametrize(
    "reason",
    [
        "Failed to get the canonical path for /opt/envs/serving.tar.gz.",
        "Path /e/bin/activate does not exist. The Python environment should contain an 'activate' script.",
        "archive_read_open_filename() failed.",
    ],
)
def test_an_environment_that_is_not_here_says_where_to_put_it(reason: str) -> None:
    assert "write $$TRITON_MODEL_DIRECTORY/<its name>, or leave the parameter out" in load_advice(reason)


def test_a_version_directory_that_git_has_dropped_is_to_be_made() -> None:
    reason = "at least one version must be available under the version policy of model 'resnet50'"
    assert load_advice(reason).startswith("make its version directory, mkdir resnet50/1, also for a stand-in")


TEMPLATE = """\
# ${author} wrote it
name: "m"
max_batch_size: ${triton_max_batch_size}  # ${not_this}
dynamic_batching { max_queue_delay_microseconds: ${delay} }
parameters { key: "dir" value { string_value: "${engine_dir}/${delay}" } }
"""


def test_a_template_says_which_of_it_is_not_filled_in() -> None:
    names = "${triton_max_batch_size}, ${delay}, ${engine_dir}"
    with pytest.raises(ConfigError) as caught:
        parse_pbtxt(TEMPLATE, "m/config.pbtxt")
    assert caught.value.reason == "failed to read text proto from m/config.pbtxt"
    assert caught.value.detail.endswith(f"; not filled in: {names}")
    reason = f"{caught.value.reason} ({caught.value.detail})"
    for advice in (config_advice(caught.value.detail), load_advice(reason)):
        assert advice == f"The config is a template: write values for {names}, or run the script that fills it in"


def test_placeholders_are_of_one_form() -> None:
    assert placeholders("$$TRITON_MODEL_DIRECTORY/$HOME {a} ${} ${b c} ${d}") == ["${d}"]
    assert placeholders("https://host/#${part}") == ["${part}"]


def test_a_module_is_installed_by_the_name_of_its_package() -> None:
    assert load_advice("No module named 'cv2'") == (
        "install opencv-python-headless in the Python that runs the model, or put cv2.py beside model.py"
    )
    assert load_advice("No module named 'helper'").startswith("install helper in the Python")


def test_files_without_a_config_may_be_another_backends() -> None:
    reason = "Invalid model name: Could not determine backend for model 'gpt2' with no backend in model configuration."
    assert load_advice(reason).endswith('say in its config.pbtxt what runs the files that are there: backend: "vllm"')


def test_a_pointer_of_git_is_not_a_model() -> None:
    reason = "Internal: onnx runtime error 7: Load model from /m/1/model.onnx failed:Protobuf parsing failed."
    assert "git lfs pull" in load_advice(reason)
