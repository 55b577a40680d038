"""The judges of an export besides the wheels: a tritonserver on PATH, a container, and one that hides nothing.

The tritonserver is the wheel's; `docker` is a program that starts it as a container would be started.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tritonlab
from tests.long_proofs import long
from tests.serving import write_model
from tritonlab import Server
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.last_cases import last_cases
from tritonlab.record.recorder import Recorder
from tritonlab.runtime import open_repository
from tritonlab.tools.deploy.child_command import Cancelled
from tritonlab.tools.deploy.environment.placed import EnvironmentOptions
from tritonlab.tools.deploy.environment.python_prefix import find_python
from tritonlab.tools.deploy.placement import compare_trees
from tritonlab.tools.deploy.verify import hiding
from tritonlab.tools.deploy.verify.judges import JudgePython, judge_python
from tritonlab.tools.deploy.verify.verification import verify
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE, TritonFiles, find_wheel, unpacked

from .reference import ROOT, missing
from .test_verify import CONFIG, DECOUPLED, MODEL, VALUE, _processes_with

if (why := missing()) is not None:
    pytest.skip(f"{why}; the server here is a wheel of the same package", allow_module_level=True)

pytestmark = pytest.mark.timeout(300)  # the first run fetches a wheel and builds a Python

CACHE = ROOT / "build" / "cache"
#: A container that no wheel has.
LATER = "2.52"
CALLER = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        found = []
        for each in requests:
            value = pb_utils.get_input_tensor_by_name(each, "IN").as_numpy()
            asked = pb_utils.InferenceRequest(
                model_name="net", inputs=[pb_utils.Tensor("x", value)], requested_output_names=["y"]
            )
            answer = asked.exec().output_tensors()[0].as_numpy()
            found.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", answer)]))
        return found
"""
SERVER = """#!/bin/sh
export LD_LIBRARY_PATH={libraries}:{libdir} PATH={python}/bin:$PATH
exec {server}/bin/tritonserver --backend-directory={backends} --cache-directory={server}/caches "$@"
"""
DOCKER = """#!{python}
import glob, os, subprocess, sys
words, place = sys.argv[1:], {place!r}
with open(place + "/calls", "a") as calls:
    print(*words, file=calls)
options = dict(word.lstrip("-").split("=", 1) for word in words if word.startswith("--") and "=" in word)
if words[:1] == ["rm"]:
    with open(place + "/pid") as file:
        pid = int(file.read())
    try:
        os.killpg(pid, 9)
    except ProcessLookupError:
        pass
    for path in glob.glob("/dev/shm/tritonlab_docker_*"):
        os.unlink(path)
if words[:1] == ["run"]:
    ports = dict(reversed(word.split("=")[1].split(":")[1:]) for word in words if word.startswith("--publish"))
    models = next(word.split("=")[1].split(":")[0] for word in words if word.startswith("--volume"))
    flags = [word.replace("=/models", "=" + models) for word in words[words.index("tritonserver") + 1:]]
    flags += ["--http-port=" + ports["8000"], "--grpc-port=" + ports["8001"], "--metrics-port=" + ports["8002"]]
    flags += ["--http-address=127.0.0.1", "--grpc-address=127.0.0.1"]
    flags += ["--backend-config=python,shm-region-prefix-name=tritonlab_docker_" + ports["8000"]]
    # the container is no child of this program
    server = subprocess.Popen([{server!r}, *flags], start_new_session=True)
    with open(place + "/pid", "w") as file:
        file.write(str(server.pid))
    sys.exit(server.wait())
"""


@pytest.fixture(scope="module")
def wheel() -> Iterator[tuple[TritonFiles, JudgePython]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(CACHE))
        found, cancel = find_wheel("2.51"), threading.Event()
        try:
            files = unpacked(found, print, cancel)
            python = judge_python(found, version="", lock="", say=print, cancel=cancel)
        except OSError as error:
            pytest.skip(str(error))
        yield files, python


@pytest.fixture(scope="module")
def program(wheel: tuple[TritonFiles, JudgePython]) -> Path:
    """Return a `tritonserver` as an installation has it, with its backends and its Python."""
    files, python = wheel
    place = CACHE / f"installed-{python.prefix.name}"
    backends = place / "backends"
    if not backends.exists():
        shutil.copytree(files.server / "backends", backends)
        shutil.copy2(files.stub(python.version), backends / "python" / "triton_python_backend_stub")
    path = place / "bin" / "tritonserver"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        SERVER.format(
            libraries=files.root / "nvidia_pytriton.libs",
            libdir=python.libdir,
            python=python.prefix,
            server=files.server,
            backends=backends,
        )
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    repository = tmp_path_factory.mktemp("judged") / "models"
    write_model(repository, "plain", MODEL.format(head="", body="value * 2"), CONFIG)
    write_model(repository, "decoupled", DECOUPLED, f"{CONFIG}model_transaction_policy {{ decoupled: true }}\n")
    return repository


def _kept(name: str, *answers: NDArray[Any]) -> Exchange:
    arrivals = arrivals_of({"OUT": Tensor.from_numpy(each)} for each in answers)
    return Exchange(InferenceRequest(name, {"IN": VALUE}), arrivals, name="ok")


CASES = [
    _kept("plain", VALUE.numpy() * 2),
    _kept("decoupled", *(VALUE.numpy() + n for n in range(3))),
]


@pytest.fixture
def docker(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the calls of a `docker` that has every image."""
    path = tmp_path / "bin" / "docker"
    path.parent.mkdir()
    path.write_text(DOCKER.format(python=sys.executable, place=str(tmp_path), server=str(program)))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return tmp_path


def test_the_tritonserver_on_path_and_a_container_judge(
    export: Path, program: Path, docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    found = verify(export, triton=f"path,{LATER}", requests=CASES)
    on_path, container = found.releases
    assert (on_path.verdict, container.verdict) == ("2 models, 2 requests: equal",) * 2, str(found)
    assert on_path.judge.startswith(str(program)) and "tritonserver:24.11-py3 in " in container.judge
    assert container.hidden == "hidden: everything outside the container"
    calls = (docker / "calls").read_text()
    assert calls.startswith("image inspect nvcr.io/nvidia/tritonserver:24.11-py3")
    assert "--shm-size=1g" in calls and "rm --force tritonlab-verify-" in calls
    assert not _processes_with("tritonlab_docker_")


@pytest.mark.parametrize("fails", [False, True], ids=["cancelled", "failed"])
def test_a_container_that_ends_early_leaves_nothing(
    export: Path, docker: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    cancel, lines = threading.Event(), list[str]()
    record = export.with_name("models.export.json")  # of the test before, if there was one
    before = record.read_text() if record.exists() else ""

    def print_line(text: str) -> None:
        lines.append(text)
        if text.startswith("  plain") and any("docker" in line for line in lines):
            if fails:
                raise RuntimeError("the author's own")
            cancel.set()

    with pytest.raises(RuntimeError if fails else Cancelled):
        verify(export, triton=LATER, requests=CASES, say=print_line, cancel=cancel)
    end = time.monotonic() + 20
    while _processes_with("tritonlab_docker_") and time.monotonic() < end:
        time.sleep(0.1)
    assert not _processes_with("tritonlab_docker_")
    assert (record.read_text() if record.exists() else "") == before


def test_without_a_namespace_the_report_says_what_was_not_hidden(
    export: Path, wheel: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hiding, "_unshare", lambda: ())
    monkeypatch.setenv("AUTHORS_OWN", "1")
    found = verify(export, triton="2.51", requests=CASES)
    (release,) = found.releases
    assert release.verified and release.passed and not release.is_hidden
    text = "no mount namespace here: another path and a scrubbed environment; absolute paths were not caught"
    assert release.hidden == text and f"  {text}" in str(found).splitlines()
    assert text in found.page.read_text() and text in found.record.read_text()


def test_the_last_requests_are_replayed(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, together and as streams, as golden requests are; without one of these the export is proved all the
    same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    write_model(tmp_path / "source", "plain", MODEL.format(head="", body="value * 2"), CONFIG)
    with Server(tmp_path / "source") as server:
        Recorder.for_instruments(server.instruments)
        model = server.model("plain")
        for _ in range(2):
            model(IN=np.ones((1, 4), np.float32))
            time.sleep(0.11)
        assert [case.name for case in last_cases([model])] == ["last-request-1", "last-request-2"]
        report = tritonlab.export(model, tmp_path / "models", verify="path")
    verification = report.verification
    assert verification is not None and verification.passed, str(report)
    (judged,) = verification.releases[0].models
    assert judged.sent == 2 * (1 + 4 + 1)  # alone, at once, as a stream
    assert report.to_dict()["verification"]["passed"] and verification.not_verified == ()


@long
@pytest.mark.skipif(find_python("3.12") is None, reason="this machine has no Python 3.12")
def test_environments_of_3_12_and_of_3_11_answer_equal_with_everything_hidden(
    tmp_path: Path, wheel: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is the Python of the release's own stub: both bring that of the wheel."""
    own = find_python("3.11")
    if own is None or own.why_not_relocatable:
        pytest.skip("this machine has no Python 3.11 that can be copied")
    monkeypatch.chdir(tmp_path)
    body = "value * 2 + float(np.__version__[:1])"
    for number, version in enumerate(("3.12", "3.11")):
        name = f"m{number}"
        write_model(tmp_path / "source", name, MODEL.format(head="", body=body), CONFIG)
        with Server(tmp_path / "source", model_control_mode="explicit") as server:
            server.load(name)
            env = EnvironmentOptions("dir", python=version)
            report = tritonlab.export(server.model(name), tmp_path / "models", env=env, overwrite=True)
        assert report.environment is not None and report.environment.has_stub
        assert f"Python {version}" in str(report) and report.plan.warnings == ()
        assert (tmp_path / "models" / name / "env" / "bin" / f"python{version}").exists()
    answer = {"OUT": Tensor.from_numpy(VALUE.numpy() * 2 + 1)}  # numpy 1, in both
    cases = [Exchange(InferenceRequest(name, {"IN": VALUE}), arrivals_of([answer]), name="ok") for name in ("m0", "m1")]
    found = verify(tmp_path / "models", triton="2.51", requests=cases)
    assert found.passed, str(found)
    if hiding.find_hiding({}).kind == "namespace":
        place = Path(sys.base_prefix).resolve()  # or it is in a directory that is hidden, such as the home directory
        assert any(str(each) in found.releases[0].hidden for each in (place, *place.parents[:-1]))
    # what was exported is exported again as it is, with its environment and the compiled stub
    with Server(tmp_path / "models", model_control_mode="explicit") as server:
        server.load("m0")
        again = tritonlab.export(server.model("m0"), tmp_path / "again")
    compared = compare_trees(tmp_path / "again" / "m0", tmp_path / "models" / "m0")
    assert not compared.differs and len(compared.unchanged) > 1000, again


@long
def test_an_opened_repository_is_proved_but_for_its_model_of_another_backend(
    tmp_path: Path, wheel: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel has Python's backend only: of three models, what calls the ONNX model is not proved either, and why."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from tests.backends import onnx_models

    monkeypatch.chdir(tmp_path)
    net = onnx_models.three_layers(width=4, out=4)
    onnx_models.write(tmp_path / "source", "net", {"model.onnx": net}, 'backend: "onnxruntime"\n')
    write_model(tmp_path / "source", "first", MODEL.format(head="", body="value * 2"), CONFIG)
    write_model(tmp_path / "source", "last", CALLER, CONFIG)
    tritonlab.reset()
    try:
        opened = open_repository(tmp_path / "source")
        Recorder.for_instruments(opened.workspace.server.instruments)
        for name in opened:
            model = opened[name].load()
            model(**{"x" if name == "net" else "IN": np.ones((1, 4), np.float32)})
        report = opened.export(tmp_path / "out/models", env="requirements", deploy="docker,k8s", verify="2.51")
    finally:
        tritonlab.reset()
    proof = report.models[0].verification
    assert proof is not None and (tmp_path / "out/requirements.lock").is_file()
    judged = {each.name: each for each in proof.releases[0].models}
    assert judged["first"].passed and [judged[name].symbol for name in ("net", "last")] == ["?", "?"]
    reasons = [str(judged[name].findings[0]) for name in ("net", "last")]
    assert all("has Python's backend only, and 'onnxruntime' is needed" in reason for reason in reasons)
    assert "it calls 'net', which could not be verified" in reasons[1] and "'net'" not in reasons[0]
    assert "2 of 3 models could not be verified: last, net; nothing else differs" in str(report)
