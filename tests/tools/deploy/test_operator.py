"""The operator's part of an export: only the exported folder is there, of an author who has the wheel of this checkout.

The author's machine is hidden from a real tritonserver with its container's Python, and the README's commands run as
they are written. `docker` and `kubectl` are programs of the test's own where they would need an engine or a cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance import reference
from tests.interpreters import interpreters
from tests.long_proofs import long
from tritonlab.tools.deploy.export_run import WRITTEN, run
from tritonlab.tools.deploy.verify.hiding import author_paths
from tritonlab.tools.deploy.verify.judge_server import JudgeServer, Ports, Start
from tritonlab.tools.deploy.verify.judges import WheelJudge, judge_python
from tritonlab.tools.deploy.verify.wheels import CACHE_VARIABLE, find_wheel, unpacked

from .environment.test_installed import install_wheel
from .manifests.manifests import compose_errors, kserve_errors, kubernetes_errors, schema_errors
from .manifests.promtool import PROMTOOL

#: Keeps the answers of the author's server as golden requests, and exports with the command line.
AUTHOR = """
import json, subprocess, sys
from pathlib import Path
import numpy as np
import tritonlab
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.golden import GoldenSet

folder, env, answers = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
value = np.array([10], np.float32)
with tritonlab.Server("source", warm=0) as server:
    for name, wanted in answers.items():
        responses = server.model(name).infer(inputs={"IN": value})
        found = [float(each.outputs["OUT"].numpy()[0]) for each in responses if each.outputs]
        assert found == wanted, found
        made = arrivals_of([{"OUT": Tensor.from_numpy(np.array([each], np.float32))} for each in found])
        if not list(Path("notebook.golden").glob(f"{name}/*")):
            GoldenSet().add(Exchange(InferenceRequest(name, {"IN": Tensor.from_numpy(value)}), made))
command = [Path(sys.executable).with_name("tritonlab"), "export", "source", folder, "--deploy=docker,k8s,kserve"]
done = subprocess.run([*command, f"--env={env}", "--json"], stdout=subprocess.PIPE, check=True)
print(json.loads(done.stdout)["version"])
"""
HEAD = "import os\nimport triton_python_backend_utils as pb_utils\n\n\nclass TritonPythonModel:\n"
CALLER = """    def execute(self, requests):
        found = []
        for each in requests:
            tensor = pb_utils.get_input_tensor_by_name(each, "IN")
            asked = pb_utils.InferenceRequest(model_name="{0}", inputs=[tensor], requested_output_names=["OUT"])
            found.append(pb_utils.InferenceResponse(asked.exec().output_tensors()))
        return found
"""
LEAF = """    def initialize(self, args):
        self.rate = float(os.environ.get("RATE", "2"))

    def execute(self, requests):
        found = [self.rate * pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)]) for each in found]
"""
STREAM = """    def execute(self, requests):
        for each in requests:
            tensor = pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(each, "IN").as_numpy())
            sender = each.get_response_sender()
            sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(pb_utils.InferenceResponse([tensor]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
#: Only packages of its own environment can answer: PyTorch, and a syntax of Python 3.12.
TORCH = """    def initialize(self, args):
        self.layer = torch.nn.Linear(1, 1)
        self.layer.load_state_dict(torch.load(os.path.join(os.path.dirname(__file__), "weights.pt")))

    def execute(self, requests):
        found = [pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
        with torch.no_grad():
            found = [self.layer(torch.from_numpy(each)).numpy() for each in found]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)]) for each in found]
"""
WEIGHTS = "import torch; torch.save({'weight': torch.tensor([[3.0]]), 'bias': torch.tensor([0.5])}, 'weights.pt')"
NEWER = """    type Number = float

    def execute(self, requests):
        minor: Number = sys.version_info.minor
        found = [minor + pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", each)]) for each in found]
"""
TENSORS = 'input { name: "IN" data_type: TYPE_FP32 dims: [1] } output { name: "OUT" data_type: TYPE_FP32 dims: [1] }\n'


class Work(NamedTuple):
    """The work of an author: the models, each with more of its config, and the answers to 10; the Python, its packages
    that pip installs, and the environment that the export packs."""

    models: Mapping[str, tuple[str, str]]
    answers: Mapping[str, list[float]]
    python: str = "3.11"
    package: str = ""
    env: str = "none"


WORKS = {
    "packages of the image": Work(
        models={
            "top": (HEAD + CALLER.format("middle"), ""),
            "middle": (HEAD + CALLER.format("leaf"), ""),
            "leaf": (HEAD + LEAF, ""),
            "stream": (HEAD + STREAM, "model_transaction_policy { decoupled: true }"),
            "total": (HEAD + LEAF, "max_batch_size: 2 sequence_batching { direct {} }"),
        },
        answers={"top": [20.0], "stream": [10.0, 10.0]},
    ),
    "torch": Work({"net": (f"import torch\n{HEAD}{TORCH}", "")}, {"net": [30.5]}, package="torch", env="archive"),
    "3.12": Work({"newer": (f"import sys\n{HEAD}{NEWER}", "")}, {"newer": [22.0]}, python="3.12", env="dir"),
}
#: As user 1000 without a capability, with a filter of system calls, and no way to get more.
RESTRICTED = {"Uid": "1000", "CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}
ENGINE = os.environ.get("TRITONLAB_TEST_ENGINE")
#: What needs an engine, a cluster, or port 8000 of this machine.
PROGRAMS = {
    "docker": 'echo "docker $*" >> "$LOG"; for word; do case $word in deploy/*) test -f "$word" || exit 1;; esac; done',
    "kubectl": 'echo "kubectl $*" >> "$LOG"\n'
    'case "$1 $2" in "apply -k") [ -z "$KUBECTL" ] || exec "$KUBECTL" kustomize "$3";; "apply -f") test -d "$3";; esac',
    "curl": 'for word; do shift; set -- "$@" "$(echo "$word" | sed "s/localhost:8000/$TRITON_HTTP/")"; done\n'
    'exec "$CURL" "$@"',
}


def write_models(work: Work, author: Path) -> None:
    for name, (source, more) in work.models.items():
        path = author / "source" / name / "1" / "model.py"
        path.parent.mkdir(parents=True)
        path.write_text(source)
        (path.parents[1] / "config.pbtxt").write_text(f"{TENSORS}{more}\ninstance_group {{ kind: KIND_CPU }}\n")


def install(work: Work, author: Path, place: Path) -> Path:
    """Return the author's Python, which has the wheel and the packages."""
    if work.python not in interpreters():
        pytest.skip(f"no Python {work.python}: name one in TRITONLAB_TEST_PYTHONS")
    python = install_wheel(place, interpreters()[work.python])
    if work.package:  # by pip, whose settings may name a build for CPUs
        constraints = reference.ROOT / "tests/constraints.txt"
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", constraints, work.package]
        subprocess.run(pip, check=True, capture_output=True, timeout=400)
        subprocess.run([python, "-c", WEIGHTS], cwd=author / "source/net/1", check=True, timeout=100)
    return python


def exported(work: Work, python: Path, author: Path, folder: Path) -> str:
    """Export the author's models into `folder`, and return the version."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RATE")}
    command = [python, "-c", AUTHOR, folder, work.env, json.dumps(work.answers)]
    done = subprocess.run(command, cwd=author, env=clean, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@contextlib.contextmanager
def operators_server(folder: Path, author: Path, python: Path, scratch: Path) -> Iterator[JudgeServer]:
    """Start a real 2.51 on the exported models as its container would be, where nothing of the author's is seen."""
    cancel = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(reference.ROOT / "build/cache"))
        wheel = find_wheel("2.51")
        own = judge_python(wheel, version="3.10", lock="", say=print, cancel=cancel)
        hide = author_paths({author: "the author's folder", python.parents[1]: "the author's Python"})
        judge = WheelJudge("2.51", unpacked(wheel, print, cancel), own, hide)
    hiding = judge.hiding()
    if hiding.kind == "namespace":
        assert any(Path.home().is_relative_to(each) for each in hiding.hidden) and not hiding.kept, str(hiding)

    def start(ports: Ports) -> Start:
        found = judge.start(folder / "models", brought=(), scratch=scratch, hiding=hiding, ports=ports)
        return found._replace(command=[*found.command, "--model-control-mode=none"])  # as in the image

    with JudgeServer(start, scratch, cancel) as server:
        deadline = time.monotonic() + 120  # an archive is unpacked
        while not ready(server.http) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert ready(server.http), server.last_lines(60)
        yield server


def commands(readme: str) -> list[str]:
    """Return the shell blocks of the README."""
    return re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)


def errors_of(folder: Path) -> list[str]:
    """Return what the judges of the generated files find."""
    files: dict[str, str | bytes] = {}
    for path in folder.glob("deploy/**/*"):
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = path.read_text()
    own = ("/base/", "/overlays/", "/kserve/", "/compose.yaml")
    judged = [path for path in files if any(part in path for part in own)]
    found = [error for path in judged for error in schema_errors(path, files[path])]
    found += [*kubernetes_errors(files, 256), *kserve_errors(files, 256)]
    found += compose_errors(files["deploy/compose.yaml"], 256)
    for path in folder.glob("**/*.json"):
        json.loads(path.read_text())
    return found


@pytest.mark.timeout(900)
@long
@pytest.mark.skipif(reference.missing() is not None, reason=str(reference.missing()))
@pytest.mark.parametrize("work", WORKS.values(), ids=list(WORKS))
def test_an_operator_needs_only_the_exported_folder(work: Work, tmp_path: Path) -> None:
    author, folder, scratch = tmp_path / "author", tmp_path / "operator", tmp_path / "scratch"
    write_models(work, author)
    python = install(work, author, tmp_path / "installed")
    first = exported(work, python, author, folder)
    assert errors_of(folder) == []
    if PROMTOOL is not None:
        subprocess.run([PROMTOOL, "check", "rules", folder / "deploy/monitoring/alerts.yaml"], check=True, timeout=60)
    scratch.mkdir()
    with operators_server(folder, author, python, scratch) as server:
        log = run_readme(folder, server, scratch)
    image = f"{min(work.models)}:{first}"
    assert f"docker build -t {image} -f deploy/Dockerfile ." in log
    assert "docker compose -f deploy/compose.yaml up --build" in log and "kubectl apply -k deploy/k8s/base" in log
    if work.env == "none":
        update_and_go_back(work, python, author, first=first, folder=folder)


@pytest.mark.timeout(1200)
@long
@pytest.mark.skipif(ENGINE is None, reason="TRITONLAB_TEST_ENGINE names a container engine that has the target's image")
@pytest.mark.parametrize("env", ["none", "archive"])
def test_a_container_engine_builds_and_runs_it(env: str, tmp_path: Path) -> None:
    """Also as the Deployment says, where the engine plays manifests as podman does: its restrictions are those of a
    cluster's pod."""
    write_models(WORKS["packages of the image"], tmp_path)
    engine, folder = str(ENGINE), tmp_path / "out"
    compose = [engine, "compose", "-f", str(folder / "deploy/compose.yaml")]
    try:
        assert run(tmp_path / "source", folder, env=env, deploy="k8s", run_image=True, engine=engine) == WRITTEN
        assert answer("top") == 20
    finally:
        subprocess.run([*compose, "down"], cwd=folder, check=True, capture_output=True, timeout=100)
    if subprocess.run([engine, "kube", "--help"], capture_output=True, timeout=100, check=False).returncode:
        return
    built = subprocess.run(["kubectl", "kustomize", folder / "deploy/k8s/base"], stdout=subprocess.PIPE, check=True)
    (tmp_path / "built.yaml").write_bytes(built.stdout)
    try:
        subprocess.run([engine, "kube", "play", tmp_path / "built.yaml"], check=True, timeout=100)
        deadline = time.monotonic() + 300  # each model's archive is unpacked
        while not ready("localhost:8000") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert answer("top") == 20
        assert status_of("tritonserver --model-repository=") == RESTRICTED
    finally:
        subprocess.run([engine, "kube", "down", tmp_path / "built.yaml"], check=True, timeout=100)


def answer(model: str) -> float:
    body = {"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [10]}]}
    address = f"http://localhost:8000/v2/models/{model}/infer"
    with urllib.request.urlopen(address, json.dumps(body).encode(), timeout=10) as response:
        return float(json.load(response)["outputs"][0]["data"][0])


def status_of(command: str) -> dict[str, str]:
    """Return what the kernel says of the process with a command that starts like this."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (place / "cmdline").read_bytes().replace(b"\0", b" ").decode().startswith(command):
                lines = (line.split(":") for line in (place / "status").read_text().splitlines())
                return {name: value.split()[0] for name, value in lines if name in RESTRICTED}
    return {}


def update_and_go_back(work: Work, python: Path, author: Path, *, first: str, folder: Path) -> None:
    model, newer = author / "source/leaf/1/model.py", folder.with_name("newer")
    before = model.read_text()
    model.write_text(before.replace('"2"', '"3"'))
    second = exported(work._replace(answers={"top": [30.0]}), python, author, newer)
    assert second != first
    for place, version in ((folder, first), (newer, second)):
        text = (place / "deploy/k8s/base/deployment.yaml").read_text()
        assert text.count(f"app.kubernetes.io/version: {version}") == 2 or text.count(f'version: "{version}"') == 2
        assert version in (place / "README.md").read_text()
        assert "rollout undo" in (place / "README.md").read_text()
    model.write_text(before)
    assert exported(work, python, author, folder.with_name("again")) == first


def ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/health/ready", timeout=5):
            return True
    except OSError:
        return False


def run_readme(folder: Path, server: JudgeServer, scratch: Path) -> str:
    """Run all commands of the README in the exported folder, each as it is written, and return what docker and kubectl
    were told."""
    programs, log = scratch / "bin", scratch / "log"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        **{"PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}", "LOG": str(log)},
        **{"TRITON_HTTP": server.http, "TRITON_GRPC": server.grpc, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        **{"KUBECTL": shutil.which("kubectl") or "", "CURL": shutil.which("curl") or ""},
    }
    blocks = commands((folder / "README.md").read_text())
    assert any("test_models.py" in block for block in blocks) and any("curl" in block for block in blocks)
    assert all(block.strip() for block in blocks)
    clients = {path.name for path in folder.glob("client*")}
    assert clients and not [name for name in clients if name not in (folder / "README.md").read_text()]
    for block in [*blocks, *(f"{'python' if name.endswith('.py') else 'sh'} {name}" for name in sorted(clients))]:
        command = ["sh", "-e", "-c", block]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    return log.read_text()
