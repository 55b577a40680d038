from __future__ import annotations

import pytest

from tritonlab.core.load_advice import load_advice


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
