from __future__ import annotations

import re

import pytest

from tritonlab.tools.deploy.manifests.facts import DeployedModel
from tritonlab.tools.deploy.releases import find

from .deployments import MIB, deployment, on_gpu

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"


@pytest.mark.parametrize(
    ("peak", "mib"), [(None, 256), (0, 256), (128 * MIB, 256), (128 * MIB + 1, 257), (400 * MIB, 800)]
)
def test_shared_memory_is_twice_the_peak_and_256_mib_at_least(peak: int | None, mib: int) -> None:
    assert deployment(peak_shm_bytes=peak).shm_mib == mib


@pytest.mark.parametrize(
    ("model", "name"),
    [("add_sub", "add-sub"), ("Digits.V2", "digits-v2"), ("2nd", "model-2nd"), ("模型", "model"), ("x" * 99, "x" * 40)],
)
def test_the_name_is_a_dns_label(model: str, name: str) -> None:
    found = deployment(models=[DeployedModel(model, {})]).name
    assert found == name and re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", found)


def test_the_image_is_the_target_s() -> None:
    assert deployment().release.image == IMAGE
    assert deployment(release=find("2.36")).release.image == IMAGE.replace("24.10", "23.07")
    assert deployment(release=find("2.36")).image == "digits-v2:23.07"


def test_one_model_on_a_gpu_is_enough() -> None:
    assert on_gpu().on_gpu and not deployment().on_gpu


def test_the_memory_limit_is_twice_the_peak_and_what_triton_and_shm_take() -> None:
    assert deployment().memory_limit_mib == deployment().memory_mib == 1024 + 6 * 256 + 800  # 1400, in steps
    unknown = deployment(peak_memory_bytes=None)
    assert (unknown.memory_limit_mib, unknown.memory_mib) == (None, 1024 + 800)


def test_releases_before_23_10_do_not_report_waiting_requests() -> None:
    assert [deployment(release=find(one)).reports_pending for one in ("2.36", "2.39", "2.51")] == [False, True, True]
