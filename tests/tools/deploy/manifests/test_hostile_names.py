"""Deploy files made of names that would be code: the programs are run, the other files are read by their languages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import yaml
from hypothesis import given
from markdown_it import MarkdownIt

from tests.hostile import DIRECTORY_NAMES, NAMES, quick
from tests.hostile_programs import Client, run_python, run_shell
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.quoting import one_line
from tritonlab.exchanges.exchange import Exchange, arrivals_of
from tritonlab.tools.deploy.manifests.facts import DeployedModel
from tritonlab.tools.deploy.manifests.files import deploy_files, of_models

from .deployments import CONFIG, deployment

K8S = ("deploy/k8s/base/deployment.yaml", "deploy/k8s/base/service.yaml", "deploy/k8s/base/network-policy.yaml")
ARRAY = np.array([[1.5]], np.float32)


def files_of(model: str, tensor: str) -> dict[str, Any]:
    request = InferenceRequest(model, {tensor: Tensor.from_numpy(ARRAY)}, requested_outputs=[tensor])
    recorded = Exchange(request, arrivals_of([{tensor: Tensor.from_numpy(ARRAY)}]))
    config = {**CONFIG, "output": [{"name": tensor, "data_type": "TYPE_FP32", "dims": [1]}]}
    models = [DeployedModel(model, config, {"rows": "counter", "drops": "counter"}, [recorded])] * 2
    return deploy_files(deployment(models=models))


@quick
@given(DIRECTORY_NAMES, NAMES)
def test_the_programs_send_the_names(model: str, tensor: str) -> None:
    files = files_of(model, tensor)
    programs = [name for name in files if name.endswith(".py")]
    assert len(programs) == 3 and all("/" not in name for name in programs)
    for name in programs:
        client = Client([{tensor: ARRAY}])
        run_python(files[name], client, files["test_models.npz"])
        assert {client.address} <= {"localhost:8000", "localhost:8001"}
        assert {sent[0][0] for sent in client.sent} == {model} and set(client.inputs) == {tensor} == set(client.outputs)


def test_the_commands_send_the_names(tmp_path: Path) -> None:
    @quick
    @given(DIRECTORY_NAMES, NAMES)
    def check(model: str, tensor: str) -> None:
        arguments, _ = run_shell(files_of(model, tensor)["client.sh"], tmp_path)
        (url,) = [each for each in arguments if each.startswith("http")]
        assert unquote(url) == f"http://localhost:8000/v2/models/{model}/infer"
        assert json.loads(arguments[arguments.index("-d") + 1])["inputs"][0]["name"] == tensor

    check()


@quick
@given(DIRECTORY_NAMES, NAMES)
def test_the_documents_have_the_names(model: str, tensor: str) -> None:
    files = files_of(model, tensor)
    read = {path: list(yaml.safe_load_all(text)) for path, text in files.items() if path.endswith(".yaml")}
    (application,) = read["deploy/ray/serve.yaml"][0]["applications"]
    assert application["args"]["models"] == [model] * 2
    for path in (*K8S, "deploy/kserve/inference-service.yaml"):
        assert re.fullmatch("[a-z0-9-]+", read[path][0]["metadata"]["name"])
    rules = read["deploy/monitoring/alerts.yaml"][0]["groups"][0]["rules"]
    assert read["deploy/k8s/overlays/prometheus/prometheus-rule.yaml"][0]["spec"]["groups"][0]["rules"] == rules
    for rule in rules:
        labels = rule["labels"]
        for text in (rule["annotations"]["summary"], *labels.values()):
            actions = re.findall(r"\{\{.*?\}\}", text, re.DOTALL)
            assert set(actions) <= {'{{"{{"}}', "{{ $labels.model }}", "{{ $labels.instance }}"}
        assert labels.get("model", model).replace('{{"{{"}}', "{{") == model
        assert of_models([model]) in rule["expr"] or of_models([model, model]) in rule["expr"] or "metric" in labels
    panels = json.loads(files["deploy/monitoring/dashboard.json"])["panels"]
    for panel in panels:
        for target in panel["targets"]:
            assert not re.search(r"\$(?!__rate_interval)|\[\[", target["expr"])
    page = MarkdownIt().enable("table").render(files["README.md"])
    assert set(re.findall("<([a-z0-9]+)", page)) <= {
        "h1", "h2", "p", "pre", "code", "table", "thead", "tbody", "tr", "th", "td", "ol", "li", "ul",
    }  # fmt: skip
    for path in ("deploy/Dockerfile", "client.sh"):
        head = [line for line in files[path].split("\n") if line.startswith("#")]
        assert len(head) == {"deploy/Dockerfile": 4, "client.sh": 3}[path] and all(line.isprintable() for line in head)
    assert all(re.match(r"#|[A-Z]+ [\x20-\x7e]+$|$", line) for line in files["deploy/Dockerfile"].split("\n"))
    assert one_line(model) in files["client.sh"]


@quick
@given(DIRECTORY_NAMES, NAMES)
def test_the_selector_of_a_model_selects_it_and_no_other(model: str, other: str) -> None:
    literal = of_models([model]).removeprefix("{model=~").removesuffix("}")
    # Go's pattern of a character by its number is `\x{…}`
    pattern = re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: f"\\U{int(found[1], 16):08x}", json.loads(literal))
    assert re.fullmatch(pattern, model) and literal.isprintable() and not re.search(r"\$", literal)
    assert model == other or not re.fullmatch(pattern, other)
