from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tritonlab.export.deploy.files import KINDS, deploy_files, write_deploy_files

from .deployments import deployment

PROGRAMS = {"client.py", "client.sh", "client_counter.py", "test_models.py", "test_models.npz", "README.md"}


def test_equal_facts_give_equal_files_in_one_order() -> None:
    files = deploy_files(deployment())
    assert files == deploy_files(deployment()) and list(files) == sorted(files)
    assert list(deploy_files(deployment(), ["kserve", "docker"])) == list(
        deploy_files(deployment(), ["docker", "kserve"])
    )
    assert {path for paths in KINDS.values() for path in paths} < set(files) and set(files) >= PROGRAMS


def test_only_the_kinds_that_are_named_are_made() -> None:
    files = deploy_files(deployment(), ["docker"])
    assert not [path for path in files if "k8s" in path or "kserve" in path or "adapter" in path]
    assert "kubectl" not in str(files["README.md"])
    with pytest.raises(ValueError, match="'helm' is not a kind of deploy files; name some of docker, k8s, kserve, ray"):
        deploy_files(deployment(), ["helm"])
    with pytest.raises(ValueError, match="there is no model to deploy"):
        deploy_files(deployment(models=[]))


def test_files_name_nothing_of_this_machine() -> None:
    for path, text in deploy_files(deployment()).items():
        assert isinstance(text, bytes) or (str(Path.home()) not in text and text.endswith("\n")), path


def test_writing_replaces_nothing_unless_requested(tmp_path: Path) -> None:
    assert len(write_deploy_files(tmp_path, deployment())) == len(deploy_files(deployment()))
    assert (tmp_path / "client.sh").stat().st_mode & 0o111
    assert write_deploy_files(tmp_path, deployment()) == []
    (tmp_path / "README.md").write_text("mine")
    changed = dataclasses.replace(deployment(), peak_shm_bytes=None)
    before = (tmp_path / "deploy" / "compose.yaml").read_text()
    with pytest.raises(FileExistsError, match=r"\.\w+ exists and differs"):
        write_deploy_files(tmp_path, changed, ["docker"])
    assert (tmp_path / "deploy" / "compose.yaml").read_text() == before
    written = write_deploy_files(tmp_path, changed, overwrite=True)
    assert tmp_path / "README.md" in written and tmp_path / "client.py" not in written
