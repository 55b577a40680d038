"""The steps from an export to a container. The engine is a program of the test's own, which writes down its
arguments."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from tests.tools.deploy.manifests.deployments import deployment
from tritonlab.tools.deploy.child_command import Cancelled, CommandFailed
from tritonlab.tools.deploy.export_options import ExportOptionError
from tritonlab.tools.deploy.image_build import ENGINES, build_image
from tritonlab.tools.deploy.manifests.files import write_deploy_files

IMAGE = "digits-v2:24.10-0123456789ab"
#: It answers `info` if it may, and fails at the step that a variable names.
ENGINE = """#!/bin/sh
printf '%s\\n' "$(basename "$0") $*" >> "{log}"
case "$1" in {fails}) echo "Cannot connect to the daemon" >&2; exit 1;; esac
"""


@pytest.fixture
def export(tmp_path: Path) -> Path:
    write_deploy_files(tmp_path / "an export", deployment(version=IMAGE.partition(":")[2]), ["docker"])
    return tmp_path / "an export"


def engines(folder: Path, monkeypatch: pytest.MonkeyPatch, **fails: str) -> Path:
    """Put engines alone on PATH, each with the step at which it fails, and return the file that they write."""
    programs = folder / "bin"
    programs.mkdir()
    for name, step in fails.items():
        (programs / name).write_text(ENGINE.format(log=folder / "log", fails=step or "never"))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr("tritonlab.tools.deploy.image_build.shutil.which", lambda name: name in fails or None)
    monkeypatch.setattr("tritonlab.tools.deploy.image_build._is_ready", lambda: True)
    return folder / "log"


def test_the_first_engine_that_answers_builds_and_runs(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A docker client without its server, as here, is none."""
    log, lines = engines(tmp_path, monkeypatch, docker="info", podman=""), list[str]()
    report = build_image(export, run=True, say=lines.append)
    build = f"podman build -t {IMAGE} -f {export}/deploy/Dockerfile {export}"
    up = f"podman compose -f {export}/deploy/compose.yaml up --detach"
    assert log.read_text().splitlines() == ["docker info", "podman info", build, up]
    assert [re.sub("'", "", line) for line in lines] == [build, up]
    assert report.engine == "podman" and str(report).startswith(f"podman has built {IMAGE}:")


def test_without_an_engine_the_steps_are_named(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = engines(tmp_path, monkeypatch, docker="info")
    report = build_image(export, run=True)
    assert log.read_text() == "docker info\n" and report.engine == ""
    assert "no container engine answers here (docker, podman or nerdctl)" in str(report)
    assert f"docker build -t {IMAGE} -f '{export}/deploy/Dockerfile' '{export}'" in str(report)
    for step in report.steps:
        assert step[0] == "docker"
        assert all(Path(word).exists() for word in step if word.startswith("/"))
    assert json.dumps(report.steps).count("compose.yaml") == 1


def test_it_waits_until_the_server_is_ready(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines(tmp_path, monkeypatch, docker="")
    looks = [False, False, True]
    monkeypatch.setattr("tritonlab.tools.deploy.image_build._LOOK_SECONDS", 0)
    monkeypatch.setattr("tritonlab.tools.deploy.image_build._is_ready", lambda: looks.pop(0))
    assert build_image(export, run=True).engine == "docker" and not looks
    looks += [False, False]
    monkeypatch.setattr("tritonlab.tools.deploy.image_build._READY_SECONDS", -1)
    with pytest.raises(CommandFailed, match="Triton was not ready") as raised:
        build_image(export, run=True)
    assert raised.value.remedy() == f"read docker compose -f '{export}/deploy/compose.yaml' logs"


def test_a_failure_is_reported(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines(tmp_path, monkeypatch, docker="info", nerdctl="build")
    with pytest.raises(CommandFailed, match=r"nerdctl build(.|\n)*Cannot connect to the daemon"):
        build_image(export)
    with pytest.raises(ExportOptionError, match="does not answer: 'podman' is not on PATH") as raised:
        build_image(export, "podman")
    assert str(list(ENGINES)) in raised.value.remedy()
    with pytest.raises(ExportOptionError, match=r"does not answer: (.|\n)*Cannot connect to the daemon"):
        build_image(export, "docker")
    (export / "deploy/compose.yaml").unlink()
    with pytest.raises(ExportOptionError, match=r"has no deploy/compose\.yaml") as raised:
        build_image(export, run=True)
    assert raised.value.remedy() == "export with --deploy=docker"


def test_it_can_be_cancelled(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines(tmp_path, monkeypatch, docker="")
    (tmp_path / "bin/docker").write_text("#!/bin/sh\n[ $1 = info ] || exec sleep 60\n")
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        build_image(export, say=lambda line: cancel.set(), cancel=cancel)
