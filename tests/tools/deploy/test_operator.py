"""The operator's part of an export: only the exported folder is there, of an author who has the wheel of this checkout.

The author's folder and Python are hidden from a real tritonserver, and the README's commands run as they are written.
`docker` and `kubectl` are programs of the test's own where they would need an engine or a cluster.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.conformance import reference
from tests.long_proofs import long
from tritonlab.tools.deploy.verify.hiding import find_hiding

from .environment.test_installed import python  # noqa: F401  the fixture
from .manifests.manifests import compose_errors, kserve_errors, kubernetes_errors, schema_errors
from .manifests.promtool import PROMTOOL

AUTHOR = """
import sys
from pathlib import Path
import numpy as np
import tritonlab
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.exchanges.golden import GoldenSet

root = Path(sys.argv[1])
with tritonlab.Server(root / "source", warm=0) as server:
    models = [server.model(name) for name in ("top", "stream", "total")]
    for model, answers in (("top", [20]), ("stream", [10, 10])):
        tensors = {"IN": Tensor.from_numpy(np.array([10], np.float32))}
        made = arrivals_of([{"OUT": Tensor.from_numpy(np.array([each], np.float32))} for each in answers])
        if not list(Path("notebook.golden").glob(f"{model}/*")):
            GoldenSet().add(Exchange(InferenceRequest(model, tensors), made))
    report = tritonlab.export(models, sys.argv[2], deploy=["docker", "k8s", "kserve"], env="none")
    print(report.version)
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
TENSORS = 'input { name: "IN" data_type: TYPE_FP32 dims: [1] } output { name: "OUT" data_type: TYPE_FP32 dims: [1] }\n'
MODELS = {
    "top": (CALLER.format("middle"), ""),
    "middle": (CALLER.format("leaf"), ""),
    "leaf": (LEAF, ""),
    "stream": (STREAM, "model_transaction_policy { decoupled: true }"),
    "total": (LEAF, "max_batch_size: 2 sequence_batching { direct {} }"),
}
#: What needs an engine, a cluster, or port 8000 of this machine.
PROGRAMS = {
    "docker": 'echo "docker $*" >> "$LOG"; for word; do case $word in deploy/*) test -f "$word" || exit 1;; esac; done',
    "kubectl": 'echo "kubectl $*" >> "$LOG"\n'
    'case "$1 $2" in "apply -k") [ -z "$KUBECTL" ] || exec "$KUBECTL" kustomize "$3";; "apply -f") test -d "$3";; esac',
    "curl": 'for word; do shift; set -- "$@" "$(echo "$word" | sed "s/localhost:8000/$TRITON_HTTP/")"; done\n'
    'exec "$CURL" "$@"',
}


def exported(python: Path, author: Path, folder: Path) -> str:  # noqa: F811
    """Export the author's models to `folder`/models, and return the version."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RATE")}
    command = [python, "-c", AUTHOR, author, folder / "models"]
    done = subprocess.run(command, cwd=author, env=clean, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


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


@pytest.mark.timeout(400)
@long
@pytest.mark.skipif(reference.missing() is not None, reason=str(reference.missing()))
def test_an_operator_needs_only_the_exported_folder(python: Path, tmp_path: Path) -> None:  # noqa: F811
    author, folder = tmp_path / "author", tmp_path / "operator"
    for name, (source, more) in MODELS.items():
        path = author / "source" / name / "1" / "model.py"
        path.parent.mkdir(parents=True)
        path.write_text(HEAD + source)
        (path.parents[1] / "config.pbtxt").write_text(f"{TENSORS}{more}\ninstance_group {{ kind: KIND_CPU }}\n")
    first = exported(python, author, folder)
    assert errors_of(folder) == []
    if PROMTOOL is not None:
        subprocess.run([PROMTOOL, "check", "rules", folder / "deploy/monitoring/alerts.yaml"], check=True, timeout=60)

    hiding = find_hiding({author: "the author's folder", python.parents[1]: "the author's Python"})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    temporary, models = scratch / "tmp", folder / "models"
    temporary.mkdir()
    within, seen = hiding.command([], {"models": models}, temporary), Path(hiding.place("models", models))
    with reference.ReferenceServer(seen, scratch, ["--model-control-mode=none"], within) as server:
        deadline = time.monotonic() + 60
        while not ready(server.http) and time.monotonic() < deadline:
            time.sleep(0.1)
        log = run_readme(folder, server, scratch)
    image = f"top:{first}"
    assert f"docker build -t {image} -f deploy/Dockerfile ." in log
    assert "docker compose -f deploy/compose.yaml up --build" in log and "kubectl apply -k deploy/k8s/base" in log

    # an update, and the way back
    model = author / "source/leaf/1/model.py"
    model.write_text(model.read_text().replace('"2"', '"3"'))
    second = exported(python, author, tmp_path / "second")
    assert second != first
    for place, version in ((folder, first), (tmp_path / "second", second)):
        text = (place / "deploy/k8s/base/deployment.yaml").read_text()
        assert text.count(f"app.kubernetes.io/version: {version}") == 2 or text.count(f'version: "{version}"') == 2
        assert version in (place / "README.md").read_text()
        assert "rollout undo" in (place / "README.md").read_text()
    model.write_text(model.read_text().replace('"3"', '"2"'))
    assert exported(python, author, tmp_path / "third") == first


def ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/health/ready", timeout=5):
            return True
    except OSError:
        return False


def run_readme(folder: Path, server: reference.ReferenceServer, scratch: Path) -> str:
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
    assert any("client.py" in block for block in blocks) and any("curl" in block for block in blocks)
    for block in blocks:
        command = ["sh", "-e", "-c", block]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    return log.read_text()
