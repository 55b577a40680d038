"""Everything of an export in one call: built in one place, written at the end or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tritonlab
from tests.models import IDENTITY
from tests.serving import write_model
from tests.tools.deploy.environment.test_placed import prefix_of
from tests.tools.deploy.test_placement import CALLS
from tritonlab import Model, Server
from tritonlab.core.status import InvalidArgumentError
from tritonlab.engine.life.model_stub import ModelStub
from tritonlab.repository.place import SCRATCH
from tritonlab.tools.deploy.child_command import Cancelled
from tritonlab.tools.deploy.environment import built_environment, placed
from tritonlab.tools.deploy.environment.lock import EnvironmentRefused
from tritonlab.tools.deploy.environment.python_prefix import Python
from tritonlab.tools.deploy.export_options import ExportOptionError
from tritonlab.tools.deploy.exported_files import files_of, version_of
from tritonlab.tools.deploy.placement import compare_trees
from tritonlab.tools.deploy.releases import UnknownTarget
from tritonlab.tools.deploy.report import ExportConflict

TEXT = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }'


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Model]]:
    source = tmp_path_factory.mktemp("exporting") / "source"
    for name in ("one", "two"):
        write_model(source, name, IDENTITY, TEXT)
    with Server(source, warm=0) as server:
        yield [server.model("one"), server.model("two")]


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_without_options_only_the_record_lies_beside_the_models(models: list[Model], tmp_path: Path) -> None:
    report = tritonlab.export(models[0], tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["whole", "whole.export.json"]
    facts = report.to_dict()
    assert (facts["environment"], facts["verification"], facts["beside"]["added"]) == (None, None, [])
    assert facts["bytes"] == sum(map(len, files(tmp_path / "whole").values()))


def test_models_environment_and_deploy_files_are_written_together(models: list[Model], tmp_path: Path) -> None:
    prefix = prefix_of(tmp_path / "prefix")
    seen: list[str] = []
    report = tritonlab.export(models, tmp_path / "out/models", env=str(prefix), deploy="docker,k8s", say=seen.append)
    written = files(tmp_path / "out")
    for name in ("one", "two"):
        assert {f"models/{name}/1/model.py", f"models/{name}/config.pbtxt", f"models/{name}/env.tar.gz"} <= set(written)
        assert b"$$TRITON_MODEL_DIRECTORY/env.tar.gz" in written[f"models/{name}/config.pbtxt"]
    assert {"README.md", "deploy/Dockerfile", "deploy/compose.yaml", "deploy/k8s/base/deployment.yaml"} <= set(written)
    assert sorted(os.listdir(tmp_path)) == ["out", "prefix"]
    assert any("prefix has" in line for line in seen)
    assert report.environment is not None and report.environment.name == "env.tar.gz"
    assert report.bytes == sum(len(data) for name, data in written.items() if name.startswith("models/"))
    assert "env.tar.gz has" in str(report) and "deploy/" in report.tree()
    # the numpy of this kernel does not matter any more
    assert not [warning for each in report.reports for warning in each.plan.warnings]
    again = tritonlab.export(models, tmp_path / "out/models", env=str(prefix), deploy=["docker", "k8s"])
    assert files(tmp_path / "out") == written and not any(each.plan.differs for each in again.reports)


def test_a_refused_environment_leaves_nothing(models: list[Model], tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=60)
    with pytest.raises(EnvironmentRefused, match="is a virtual environment: it has no interpreter"):
        tritonlab.export(models, tmp_path / "new/models", env=str(venv), deploy=["docker"])
    assert os.listdir(tmp_path) == ["venv"]
    (tmp_path / "models" / "one").mkdir(parents=True)
    (tmp_path / "models" / "one" / "mine").write_text("precious")
    with pytest.raises(EnvironmentRefused):
        tritonlab.export(models, tmp_path / "models", env=str(venv), overwrite=True)
    assert files(tmp_path / "models") == {"one/mine": b"precious"}
    assert sorted(os.listdir(tmp_path)) == ["models", "venv"]


@pytest.mark.parametrize("step", range(1, 4))
def test_a_cancelled_export_leaves_nothing(models: list[Model], tmp_path: Path, step: int) -> None:
    """It is cancelled while the models are copied, at the first line of the environment, and at its last."""
    prefix, cancel, lines = prefix_of(tmp_path / "prefix"), threading.Event(), 0

    def say(text: str) -> None:
        nonlocal lines
        lines += 1
        if lines == step - 1:
            cancel.set()

    def progress(done: int, total: int) -> None:
        if step == 1:
            cancel.set()

    with pytest.raises(Cancelled):
        tritonlab.export(models, tmp_path / "out", env=str(prefix), progress=progress, say=say, cancel=cancel)
    assert os.listdir(tmp_path) == ["prefix"]


def test_what_lies_beside_the_repository_is_not_replaced_unasked(models: list[Model], tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(ExportConflict, match=r"(?s)change README\.md.*Nothing was written"):
        tritonlab.export(models, tmp_path / "models", deploy="docker")
    assert files(tmp_path) == {"README.md": b"mine"}
    tritonlab.export(models, tmp_path / "models", deploy="docker", overwrite=True)
    (backup,) = (tmp_path / "models.backup").iterdir()
    assert backup.name.startswith("README.md-") and backup.read_text() == "mine"
    assert (tmp_path / "README.md").read_text().startswith("# `one` on Triton")


def test_a_dry_run_says_what_would_be_written(
    models: list[Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = []
    modules = ModelStub.modules
    monkeypatch.setattr(ModelStub, "modules", lambda stub, timeout: lists.append(stub) or modules(stub, timeout))
    prefix = prefix_of(tmp_path / "prefix")
    report = tritonlab.export(models, tmp_path / "models", env=str(prefix), deploy="kserve", dry_run=True)
    assert os.listdir(tmp_path) == ["prefix"]
    assert report.dry_run and "Nothing was written" in str(report)
    assert len(lists) == len(models)  # each once, for pre-flight and for its environment
    assert report.beside is not None and "deploy/kserve/serving-runtime.yaml" in report.beside.added
    assert report.environment is not None and report.environment.name == "env.tar.gz"
    refused = tmp_path / "refused"
    refused.mkdir()
    with pytest.raises(EnvironmentRefused):
        tritonlab.export(models, tmp_path / "models", env=str(refused), dry_run=True)


def test_options_that_cannot_be_are_refused_before_anything_is_written(models: list[Model], tmp_path: Path) -> None:
    with pytest.raises(ExportOptionError, match="there are docker, k8s, kserve"):
        tritonlab.export(models, tmp_path / "models", deploy="swarm")
    with pytest.raises(ExportOptionError, match="beside a repository called models/"):
        tritonlab.export(models, tmp_path / "out", deploy="docker")
    with pytest.raises(TypeError, match="did you mean 'alone'"):
        tritonlab.export(models, tmp_path / "out", alon=True)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="one: capture and artifacts are for models of this notebook"):
        tritonlab.export(models, tmp_path / "out", capture=True)
    assert os.listdir(tmp_path) == []


def test_the_first_line_says_that_large_weights_are_left_out(tmp_path: Path) -> None:
    write_model(tmp_path / "source", "large", IDENTITY, TEXT)
    with (tmp_path / "source" / "large" / "1" / "weights.bin").open("wb") as file:
        file.truncate(120_000_000)
    sentence = "1/weights.bin has 120 MB and was left out, and the model does not deploy until it is there"
    with Server(tmp_path / "source", warm=0) as server:
        report = tritonlab.export(server.model("large"), tmp_path / "models")
        whole = tritonlab.export(server.model("large"), tmp_path / "whole", include="1/weights.bin")
    first = str(report).splitlines()[0]
    assert first.startswith(f"large is not complete: {sentence}: include=['1/weights.bin'] (--include 1/weights.bin)")
    assert report.preflight is not None and report.preflight.outcome == "does not load"
    assert [str(each).partition(":")[0] for each in report.preflight.findings if each.row == "P10"] == [sentence]
    assert whole.preflight is not None and whole.preflight.passed and not whole.incomplete
    assert (tmp_path / "whole/large/1/weights.bin").stat().st_size == 120_000_000


def test_two_exports_with_an_environment_are_equal_byte_for_byte(
    models: list[Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a directory and as an archive; Python, pip and the wheel are stand-ins."""
    prefix = prefix_of(tmp_path / "python", "3.11")
    library, executable = prefix / "lib" / "libpython3.11.so.1.0", prefix / "bin" / "python3.11"
    executable.touch(0o755)
    python = Python(
        "3.11", prefix, executable, library, standard_library=library.parent / "python3.11", full_version="3.11.7"
    )
    stub = tmp_path / "stub"
    stub.write_bytes(b"\x7fELF")

    def install(python: object, requirements: list[str], site: Path, cancel: threading.Event) -> None:
        for each in requirements:
            (site / f"{each}.txt").write_text(each)

    monkeypatch.setattr(built_environment, "install", install)
    monkeypatch.setattr(placed, "resolved", lambda wanted, python, cancel, say: wanted)
    monkeypatch.setattr(placed, "unpacked", lambda wheel, say, cancel: SimpleNamespace(stub=lambda version: stub))
    monkeypatch.setattr(placed, "own_python", lambda: python)
    for choice, name in (("dir", "env"), ("archive", "env.tar.gz")):
        for number in (1, 2):
            root = tmp_path / f"{choice}{number}"
            report = tritonlab.export(models[0], root / "models", env=choice, deploy="docker")
            assert report.environment is not None and report.environment.name == name
        first, second = tmp_path / f"{choice}1", tmp_path / f"{choice}2"
        compared = compare_trees(first, second)
        assert not compared.differs and compared.bytes == report.bytes + sum(
            path.stat().st_size for path in second.rglob("*") if path.is_file() and "models" not in path.parts
        )
        again = tritonlab.export(models[0], first / "models", env=choice, deploy="docker")
        assert not again.plan.differs and again.beside is not None and not again.beside.differs


def test_equal_models_have_one_version_and_others_another(models: list[Model], tmp_path: Path) -> None:
    place = tmp_path / "a" / "models"
    first = tritonlab.export(models[0], place, deploy="k8s")
    written = files(tmp_path / "a")
    record = json.loads(written["export.json"])
    assert re.fullmatch(r"24\.10-[0-9a-f]{12}", first.version) and record["version"] == first.version
    image = f"one:{first.version}"
    for name in ("README.md", "deploy/Dockerfile", "deploy/k8s/base/deployment.yaml"):
        assert image in written[name].decode(), name
    assert f"Version: {first.version}" in str(first) and first.to_dict()["version"] == first.version
    # in another place, at another time, with another umask
    umask = os.umask(0o077)
    try:
        second = tritonlab.export(models[0], tmp_path / "b" / "models", deploy="k8s")
    finally:
        os.umask(umask)
    assert second.version == first.version and tritonlab.export(models[0], tmp_path / "bare").version == first.version
    assert json.loads((tmp_path / "bare.export.json").read_text())["version"] == first.version
    tritonlab.export(models[0], place, deploy="k8s")
    assert files(tmp_path / "a") == written
    # the release, another model in the repository, one byte, and what runs
    assert tritonlab.export(models[0], tmp_path / "c", target="2.49").version != first.version
    both = tritonlab.export(models[1], place, deploy="k8s", overwrite=True)
    assert both.version == tritonlab.export(models, tmp_path / "both").version != first.version
    source = tmp_path / "bare" / "one" / "1" / "model.py"
    found = {version_of(files_of(tmp_path / "bare"), "24.10")}
    source.chmod(0o755)
    found.add(version_of(files_of(tmp_path / "bare"), "24.10"))
    source.write_bytes(source.read_bytes() + b"#")
    found.add(version_of(files_of(tmp_path / "bare"), "24.10"))
    assert len(found) == 3 and first.version in found


def test_a_verdict_stays_in_the_record_of_the_same_files_only(models: list[Model], tmp_path: Path) -> None:
    tritonlab.export(models[0], tmp_path / "out")
    record = tmp_path / "out.export.json"
    verdict = {"when": "2026-11-28T12:00:00Z", "verified": [{"triton": "2.51", "models": {}, "verdict": "equal"}]}
    record.write_text(json.dumps({**json.loads(record.read_text()), **verdict}))
    tritonlab.export(models[0], tmp_path / "out")
    assert json.loads(record.read_text()).items() >= verdict.items()
    report = tritonlab.export(models[1], tmp_path / "out")
    document = json.loads(record.read_text())
    assert document["version"] == report.version and "verified" not in document
    assert [entry["verified"] for entry in document["earlier"]] == [verdict["verified"]]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_everything_or_nothing_is_written_whatever_fails(
    models: list[Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Each call of the system fails once, before or after it did its work: models, environment and deploy files."""
    prefix, count, fatal = prefix_of(tmp_path / "prefix"), 0, -1

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **settings: Any) -> Any:
            nonlocal count
            if fatal < 0 or not any("place_" in str(each) for each in arguments):
                return real(*arguments, **settings)
            count += 1
            at = count
            if at == fatal and not after:
                raise OSError(errno.EIO, "disk on fire")
            result = real(*arguments, **settings)
            if at == fatal:
                raise OSError(errno.EIO, "disk on fire")
            return result

        return call

    for module, name in CALLS:
        monkeypatch.setattr(module, name, failing(getattr(module, name)))
    number = 1
    while True:
        place, count, fatal = tmp_path / f"place_{number}", 0, -1
        (place / "models" / "two").mkdir(parents=True)
        (place / "models" / "two" / "mine").write_text("precious")
        (place / "README.md").write_text("mine")
        before = files(place)
        fatal = number
        try:
            tritonlab.export(models, place / "models", env=str(prefix), deploy="docker", overwrite=True)
        except OSError as error:
            assert "disk on fire" in str(error)
        fatal = -1
        found = files(place)
        if found != before:  # then all of it is there
            assert {f"models/{name}/env.tar.gz" for name in ("one", "two")} <= set(found), number
            assert found["README.md"] != b"mine" and "deploy/compose.yaml" in found, number
            assert "models/two/mine" not in found
        assert not list(tmp_path.rglob(f"{SCRATCH}*"))
        if count < number:
            break
        number += 1
    assert number > 30


def test_a_release_that_is_not_known_is_refused_before_anything_is_written(models: list[Model], tmp_path: Path) -> None:
    with pytest.raises(UnknownTarget, match=r"'9\.99' is not a release"):
        tritonlab.export(models[0], tmp_path / "out" / "models", verify="9.99")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("deploy", ["", "docker"])
def test_with_a_lock_neither_findings_nor_commands_speak_of_the_bare_image(
    models: list[Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deploy: str
) -> None:
    monkeypatch.setattr(placed, "resolved", lambda wanted, python, cancel, say: wanted)
    report = tritonlab.export(models[0], tmp_path / "out" / "models", env="requirements", deploy=deploy)
    triton = report.commands()[0]
    if deploy:
        image = f"one:{report.version}"
        out = tmp_path / "out"
        assert triton.startswith(f"docker build -t {image} -f {out}/deploy/Dockerfile {out} && docker")
        assert triton.endswith(f"-p 8002:8002 {image}")
    else:
        assert f"{tmp_path}/out/models.requirements.lock:/opt/requirements.lock:ro" in triton
        command = "pip install -r /opt/requirements.lock && exec tritonserver --model-repository=/models"
        assert triton.endswith(f"'{command}'")
    assert "pip" not in tritonlab.export(models[0], tmp_path / "bare").commands()[0]
