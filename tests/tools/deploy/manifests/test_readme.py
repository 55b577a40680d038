from __future__ import annotations

import json
import re
import shlex

import jsonschema
import pytest

from tritonlab.tools.deploy.manifests.facts import DeployedModel
from tritonlab.tools.deploy.manifests.files import KINDS, deploy_files
from tritonlab.tools.deploy.manifests.operator_facts import OpenPoint, OperatorFacts
from tritonlab.tools.deploy.preflight.variables import Variable

from .deployments import deployment, with_sequences


def page(*kinds: str, **more: object) -> str:
    text = deploy_files(deployment(**more), kinds)["README.md"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_file_that_it_names_is_there(kind: str) -> None:
    files = deploy_files(deployment(), [kind])
    named = re.findall(r"deploy/[\w./-]+|\w+\.(?:py|sh|yaml|json)\b", str(files["README.md"]))
    assert named and {path for path in files if path.startswith("client_")} <= set(named)
    for name in {*named} - {"export.json"}:  # the record is written by the export itself
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
    for command in ("docker compose -f deploy/compose.yaml up --build", "kubectl apply -k deploy/k8s/base"):
        assert command in update
    assert "kubectl rollout undo deployment/digits-v2" in update and "export.json" in update
    assert "kserve" not in update and "rollout undo" not in page("docker", version="24.10-0123456789ab")


NAMED = {
    "name": "digits",
    "max_batch_size": 8,
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [2]}],
    "output": [{"name": "OUT", "data_type": "TYPE_INT64", "dims": [1]}],
}


def test_it_has_inputs_outputs_and_a_request_that_its_schema_allows() -> None:
    deployed = deployment(models=[DeployedModel("digits", NAMED)], version="24.10-0123456789ab")
    files = deploy_files(deployed, ["docker"])
    text, document = str(files["README.md"]), json.loads(files["openapi.json"])
    assert "| `digits` | input | `IN` | `FP32[batch ≤ 8, 2]` |" in text and "| output | `OUT` |" in text
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("curl --fail-with-body")))
    body = json.loads(words[-1])
    (address,) = [word for word in words if word.startswith("http")]
    path = document["paths"][address.removeprefix(document["servers"][0]["url"])]
    schema = path["post"]["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator({**schema, "components": document["components"]})
    assert body["inputs"][0]["shape"] == [1, 2] and not list(validator.iter_errors(body))
    assert list(validator.iter_errors({"inputs": [{**body["inputs"][0], "name": "other"}]}))
    assert document["info"]["version"] == deployed.version


def test_a_validator_of_openapi_takes_the_document() -> None:
    validate = pytest.importorskip("openapi_spec_validator").validate
    files = deploy_files(deployment(models=[DeployedModel("digits", NAMED)]), ["docker"])
    validate(json.loads(files["openapi.json"]))


def test_it_has_the_authors_line_and_what_the_operator_sets() -> None:
    facts = OperatorFacts(
        about="Reads digits.",
        variables=[Variable("RATE", "0.5"), Variable("TABLE", is_required=True), Variable("API_TOKEN")],
        environment="env has 108 MB in each model directory, Python 3.11",
        packages=["numpy==1.26.4"],
        load_seconds={"digits.v2": 5},
        open_points=[OpenPoint("digits.v2", "it connects with db:5432", "make the address a parameter")],
        verified_on=["2.51"],
    )
    text = page("k8s", operator=facts)
    assert text.splitlines()[2] == "Reads digits."
    for row in ("| `RATE` | default `0.5` |", "| `TABLE` | required |", "| `API_TOKEN` | optional, a secret |"):
        assert row in text
    assert "create configmap digits-v2-settings --from-literal=TABLE=...\n" in text
    assert "create secret generic digits-v2-secrets --from-literal=API_TOKEN=...\n" in text
    assert "| Load of `digits.v2` | within 5 s |" in text and "| Packages | `numpy==1.26.4` |" in text
    assert "- `digits.v2`: it connects with db:5432. To do: make the address a parameter.\n" in text
    assert "Triton 2.51: `verify.html` begins with their verdict" in text
    assert "No real server was asked" in page("k8s") and "Nothing that was looked at" in page("k8s")
    assert (
        "the ConfigMap `digits-v2-settings` and the Secret `digits-v2-secrets`, which have to be there before" in text
    )
    only = page("k8s", operator=OperatorFacts(variables=[Variable("RATE", "0.5")]))
    assert "from the ConfigMap `digits-v2-settings`, if it is there:\n\n```sh\nkubectl create configmap" in only
    assert "--from-literal=RATE=...\n```" in only and "Secret" not in only
    assert "Settings" not in page("k8s") and ".env" in page("docker", operator=facts)


def test_it_says_the_truth_about_sequences() -> None:
    text = deploy_files(with_sequences(), ["k8s", "kserve"])["README.md"]
    part = str(text).partition("## Sequences\n")[2].partition("\n## ")[0]
    assert part.startswith("\n`total` keeps sequences.") and "there is one pod and no autoscaler" in part
    for words in ("one gRPC stream", "in the request itself no proxy sees it", "`sessionAffinity` goes by the address"):
        assert words in part
    assert "## Sequences" not in page("k8s") and "custom.metrics" not in str(text)
