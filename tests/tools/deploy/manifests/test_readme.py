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


def test_it_says_how_to_update_and_how_to_go_back() -> None:
    text = page("docker", "k8s", version="24.10-0123456789ab")
    assert "Version `24.10-0123456789ab`" in text and "docker build -t digits-v2:24.10-0123456789ab" in text
    update = text.partition("## Update and rollback")[2].partition("\n## ")[0]
    for command in ("docker compose -f deploy/compose.yaml up --build", "kubectl apply -f deploy/k8s/"):
        assert command in update
    assert "kubectl rollout undo deployment/digits-v2" in update and "export.json" in update
    assert "kserve" not in update and "rollout undo" not in page("docker", version="24.10-0123456789ab")
