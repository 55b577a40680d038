"""The set of files and what stands in the programs; that they run, on both sides, is in
`tests/conformance/test_deploy_programs.py`."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.tools.deploy.manifests.facts import DeployedModel
from tritonlab.tools.deploy.manifests.files import KINDS, deploy_files, write_deploy_files
from tritonlab.tools.deploy.manifests.programs import programs

from .deployments import CONFIG, deployment, recorded

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


def test_commands_are_written_as_programs(tmp_path: Path) -> None:
    write_deploy_files(tmp_path, deployment())
    written = {path.relative_to(tmp_path).as_posix(): path for path in tmp_path.rglob("*") if path.is_file()}
    assert set(written) == set(deploy_files(deployment()))
    assert {name for name, path in written.items() if path.stat().st_mode & 0o111} == {"client.sh"}


def test_each_model_has_its_client_and_every_request_its_test() -> None:
    files = programs(deployment())
    # HTTP has one response for each request, so the model that streams has no command of curl
    assert list(files) == ["client.py", "client.sh", "client_counter.py", "test_models.py", "test_models.npz"]
    for name in ("client.py", "client_counter.py", "test_models.py"):
        ast.parse(files[name])
    assert 'os.environ.get("TRITON_HTTP", "localhost:8000")' in str(files["client.py"])
    assert 'os.environ.get("TRITON_GRPC", "localhost:8001")' in str(files["client_counter.py"])
    tests = [node.name for node in ast.parse(files["test_models.py"]).body if isinstance(node, ast.FunctionDef)]
    assert tests == ["test_digits_v2_0", "test_digits_v2_1", "test_counter_2"]


def test_a_request_too_large_for_a_text_is_only_tested() -> None:
    large = InferenceRequest("m", {"IN": Tensor.from_numpy(np.zeros((1, 1_000_000), np.float32))})
    answer = recorded("m", 1)
    files = programs(deployment(models=[DeployedModel("m", CONFIG, {}, [replace(answer, request=large)])]))
    assert list(files) == ["test_models.py", "test_models.npz"]
    files = programs(deployment(models=[DeployedModel("m", CONFIG, {}, [replace(answer, request=large), answer])]))
    assert list(files)[:2] == ["client.py", "client.sh"]


def test_the_model_s_name_is_quoted_for_the_shell() -> None:
    files = programs(deployment(models=[DeployedModel("it's $x", CONFIG, {}, [recorded("it's $x", 1)])]))
    assert '"http://${TRITON_HTTP:-localhost:8000}"/v2/models/it%27s%20%24x/infer -d' in str(files["client.sh"])


def test_texts_in_a_request_are_left_alone() -> None:
    text = b"""'http://localhost:8000 InferenceServerClient("localhost:8000")"""
    request = InferenceRequest("m", {"IN": Tensor.from_numpy(np.array([[text]], dtype=object))})
    answer = recorded("m", 1)
    files = programs(deployment(models=[DeployedModel("m", CONFIG, {}, [replace(answer, request=request)])]))
    client, shell = str(files["client.py"]), str(files["client.sh"])
    assert repr(text) in client and client.count("os.environ") == 1
    assert '"http://${TRITON_HTTP:-localhost:8000}"/v2/models/m/infer ' in shell and shell.count("${TRITON_HTTP") == 1


def test_without_recorded_requests_there_is_no_program() -> None:
    assert programs(deployment(models=[DeployedModel("m", CONFIG)])) == {}
