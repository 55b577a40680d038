from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tests.serving import write_model
from tritonlab.core.status import ModelLoadError
from tritonlab.repository.model_repository_manager import ModelRepositoryManager

_HELLO = "5d41402abc4b2a76b9719d911017c592"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return tmp_path / "repository"


@pytest.fixture
def manager(repository: Path) -> ModelRepositoryManager:
    return ModelRepositoryManager([repository])


def failure(manager: ModelRepositoryManager) -> str:
    with pytest.raises(ModelLoadError) as raised:
        manager.read("m")
    return raised.value.reason


@rule("5.1.8")
def test_an_agent_that_is_not_here(manager: ModelRepositoryManager, repository: Path) -> None:
    write_model(repository, "m", "", 'model_repository_agents { agents { name: "decrypt" } }')
    reason = "unable to find 'libtritonrepoagent_decrypt.so' for repo agent 'decrypt', searched: "
    assert failure(manager).startswith(f"Poll failed for model directory 'm': {reason}")
    write_model(repository, "m", "", "model_repository_agents { }")
    assert manager.read("m").name == "m"


@rule("5.1.8")
@pytest.mark.parametrize(
    ("key", "expected", "reason"),
    [
        ("MD5:1/model.py", _HELLO, ""),
        ("md5:1/model.py", "0", f"Mismatched MD5 hash for file 1/model.py, expect: 0, got: {_HELLO}"),
        ("1/model.py", _HELLO, "failed to parse key: 1/model.py"),
        ("SHA256:1/model.py", "0", "Unsupported checksum algorithm: SHA256"),
        ("MD5:2/model.py", "0", "failed to open text file for read 2/model.py: No such file or directory"),
    ],
)
def test_the_agent_that_compares_checksums(
    manager: ModelRepositoryManager, repository: Path, key: str, expected: str, reason: str
) -> None:
    parameters = f'parameters {{ key: "{key}" value: "{expected}" }}'
    write_model(repository, "m", "hello", f'model_repository_agents {{ agents {{ name: "checksum" {parameters} }} }}')
    if reason:
        assert failure(manager) == f"Poll failed for model directory 'm': {reason}"
    else:
        assert manager.read("m").name == "m"
