from __future__ import annotations

import re

import pytest

from tritonlab.tools.deploy.manifests.files import KINDS, deploy_files

from .deployments import deployment


def page(*kinds: str, **more: object) -> str:
    text = deploy_files(deployment(**more), kinds)["README.md"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_file_that_it_names_is_there(kind: str) -> None:
    files = deploy_files(deployment(), [kind])
    named = re.findall(r"deploy/[\w./-]+|\w+\.(?:py|sh|yaml|json)\b", str(files["README.md"]))
    assert named
    for name in named:
        assert any(path == name or path.startswith(name) or path.endswith(f"/{name}") for path in files), name


def test_it_has_the_facts() -> None:
    text = page("k8s")
    assert "# `digits.v2` on Triton" in text and "Triton 2.51 (24.10)" in text
    assert "| `digits.v2` | 2 instances, batches up to 8 |" in text
    assert "| `counter` | 1 instance, no batches, several responses for a request (gRPC streams only) |" in text
    assert "took 400 MiB at most" in text and "set here: 800 MiB" in text
    assert "`depth`, `parse_errors`, `row_bytes`, `rows`" in text
    assert "was not measured" in page("k8s", peak_shm_bytes=None)
    assert "Nothing is installed" in page("k8s", has_lock=False)


def test_without_recorded_requests_it_names_no_program() -> None:
    models = [model.__class__(model.name, model.config) for model in deployment().models]
    assert "client" not in page("docker", models=models) and "test_models" not in page("docker", models=models)
