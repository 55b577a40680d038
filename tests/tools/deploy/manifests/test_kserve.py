from __future__ import annotations

from collections.abc import Callable

import pytest

from tritonlab.tools.deploy.manifests.facts import Deployment
from tritonlab.tools.deploy.manifests.files import deploy_files

from .deployments import deployment, on_gpu, read
from .manifests import kserve_errors, schema_errors

RUNTIME, SERVICE = "deploy/kserve/serving-runtime.yaml", "deploy/kserve/inference-service.yaml"

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"


@pytest.mark.parametrize("make", [deployment, on_gpu])
def test_the_manifests_pass_their_schemas_and_fit_together(make: Callable[[], Deployment]) -> None:
    files = deploy_files(make(), ["kserve"])
    assert schema_errors(RUNTIME, files[RUNTIME]) == schema_errors(SERVICE, files[SERVICE]) == []
    assert kserve_errors(files, make().shm_mib) == []


def test_the_image_is_the_target_s_or_ours_where_packages_are_added() -> None:
    images = {
        has_lock: read(deploy_files(deployment(has_lock=has_lock), ["kserve"])[RUNTIME])["spec"]["containers"][0][
            "image"
        ]
        for has_lock in (False, True)
    }
    assert images == {False: IMAGE, True: "digits-v2:24.10"}


def test_it_scales_on_what_the_first_model_executes_at_once() -> None:
    predictor = read(deploy_files(deployment(), ["kserve"])[SERVICE])["spec"]["predictor"]
    assert (predictor["scaleMetric"], predictor["scaleTarget"]) == ("concurrency", 8 * 2)


@pytest.mark.parametrize(
    ("path", "text", "replacement"),
    [
        (RUNTIME, "v1alpha1", "v1beta1"),
        (RUNTIME, "supportedModelFormats", "supportedFormats"),
        (RUNTIME, "emptyDir", "emptydir"),
        (RUNTIME, "    - v2\n", "    - v3\n"),
        (SERVICE, "storageUri", "storageURI"),
        (SERVICE, "scaleMetric: concurrency", "scaleMetric: queue"),
        (SERVICE, "maxReplicas: 4", 'maxReplicas: "4"'),
    ],
)
def test_the_schemas_refuse_a_mutation(path: str, text: str, replacement: str) -> None:
    before = deploy_files(deployment(), ["kserve"])[path]
    assert isinstance(before, str) and text in before
    assert schema_errors(path, before.replace(text, replacement))


@pytest.mark.parametrize(
    ("path", "text", "replacement"),
    [
        (RUNTIME, "      volumeMounts:\n        - name: shm\n          mountPath: /dev/shm\n", ""),
        (RUNTIME, '"800Mi"', '"64Mi"'),
        (RUNTIME, "containerPort: 8080", "containerPort: 8000"),
        (RUNTIME, "          port: 8080", "          port: 8000"),
        (RUNTIME, "--http-port=8080", "--http-port=9000"),
        (RUNTIME, "name: kserve-container", "name: triton"),
        (SERVICE, "runtime: digits-v2", "runtime: kserve-tritonserver"),
        (SERVICE, 'version: "2"', 'version: "1"'),
    ],
)
def test_a_mutation_that_the_schemas_take_is_found(path: str, text: str, replacement: str) -> None:
    files = deploy_files(deployment(), ["kserve"])
    before = files[path]
    assert isinstance(before, str) and text in before
    mutant = {**files, path: before.replace(text, replacement)}
    assert schema_errors(path, mutant[path]) == [] and kserve_errors(mutant, 800)
