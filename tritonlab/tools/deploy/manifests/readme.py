"""The page for the person who operates the deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ....core.quoting import markdown_code, one_line
from ....server.models.backends import DEFAULT_DIRECTORY
from .facts import LEAST_SHM_BYTES, DeployedModel, Deployment
from .monitoring import METRIC, TARGET_MICROSECONDS

_MIB = 1 << 20


def readme(deployed: Deployment, kinds: Collection[str], files: Collection[str]) -> str:
    """Return the page. `files`: what lies beside it, so that it names nothing else."""
    parts = [_about(deployed), _memory(deployed)]
    sections = {"docker": _docker, "k8s": _kubernetes, "kserve": _kserve, "ray": _ray}
    parts += [section(deployed) for kind, section in sections.items() if kind in kinds]
    parts += [_monitoring(deployed), _check(files), _trouble(deployed)]
    return "\n".join(part for part in parts if part)


def _about(deployed: Deployment) -> str:
    rows = "".join(f"| {markdown_code(model.name)} | {_execution(model)} |\n" for model in deployed.models)
    lock = (
        "`requirements.lock` is installed on top of it." if deployed.has_lock else "Nothing is installed on top of it."
    )
    return (
        f"# {markdown_code(deployed.models[0].name)} on Triton\n\n"
        f"`models/` is a model repository for Triton {deployed.release}, image `{deployed.base_image}`. {lock}\n"
        f"{_backends(deployed)}\n"
        f"| Model | How it runs |\n|---|---|\n{rows}\n"
        f"{_never_ran(deployed)}"
        "Ports: 8000 HTTP, 8001 gRPC, 8002 metrics. None of them asks who is calling: keep them inside, or put a\n"
        "proxy in front.\n"
    )


def _backends(deployed: Deployment) -> str:
    if not deployed.backends:
        return ""
    named = ", ".join(markdown_code(name) for name in deployed.backends)
    return (
        f"Python-based backends run models of it, which are in no image: {named}. `deploy/Dockerfile` copies them\n"
        f"from `backends/` to `{DEFAULT_DIRECTORY}/`.\n"
    )


def _never_ran(deployed: Deployment) -> str:
    found = {name: words for model in deployed.models for name, words in model.stood_in.items()}
    rows = [f"- {markdown_code(name)}: {one_line(words)}" for name, words in found.items()]
    if not rows:
        return ""
    head = "Not tried: where these files were made, something else answered for these models. They never ran there.\n"
    return "\n".join([head, *rows, "", ""])


def _execution(model: DeployedModel) -> str:
    if model.config.get("platform") == "ensemble":
        return "ensemble"
    size = model.config.get("max_batch_size", 0)
    batches = f"batches up to {size}" if size else "no batches"
    streams = ", several responses for a request (gRPC streams only)" if model.is_decoupled else ""
    return f"{model.instances} instance{'s' * (model.instances != 1)}, {batches}{streams}"


def _memory(deployed: Deployment) -> str:
    measured = (
        f"The models took {-(-deployed.peak_shm_bytes // _MIB)} MiB at most while they were tried; twice that"
        if deployed.peak_shm_bytes is not None
        else "It was not measured what the models take; the least size"
    )
    return (
        "## Shared memory\n\n"
        "Tensors pass between Triton and the models through `/dev/shm`. A container's default is 64 MB, and a model\n"
        f"that finds it full fails. {measured}\n({LEAST_SHM_BYTES // _MIB} MiB at least) is set here: "
        f"{deployed.shm_mib} MiB. Larger requests, or more instances, need more.\n"
    )


def _docker(deployed: Deployment) -> str:
    return (
        "## Docker\n\n"
        "```sh\ndocker compose -f deploy/compose.yaml up --build\ncurl -f http://localhost:8000/v2/health/ready\n```\n"
    )


def _kubernetes(deployed: Deployment) -> str:
    return (
        "## Kubernetes\n\n"
        f"```sh\ndocker build -t {deployed.image} -f deploy/Dockerfile .\n"
        "# push it, name it in deploy/k8s/deployment.yaml, then\n"
        f"kubectl apply -f deploy/k8s/\nkubectl rollout status deployment/{deployed.name}\n```\n\n"
        f"The autoscaler reads `{METRIC}`: how long requests wait in the queue, of the model that waits longest.\n"
        f"It adds pods above {TARGET_MICROSECONDS // 1000} ms (`deploy/k8s/hpa.yaml`; a choice, not a measurement).\n"
        "For it, Prometheus has to scrape port 8002, and prometheus-adapter needs the rule in\n"
        "`deploy/monitoring/prometheus-adapter.yaml`. Whether the metric is there:\n\n"
        "```sh\nkubectl get --raw "
        f'"/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/*/{METRIC}"\n```\n'
    )


def _kserve(deployed: Deployment) -> str:
    brought = ["what `requirements.lock` names"] * deployed.has_lock + ["the backends"] * bool(deployed.backends)
    image = (
        f"Build `{deployed.image}` from `deploy/Dockerfile` and push it: it has {' and '.join(brought)}.\n"
        if deployed.needs_image
        else ""
    )
    return (
        "## KServe\n\n"
        f"{image}Copy `models/` into the volume `{deployed.name}-models` (or change `storageUri`), then\n\n"
        f"```sh\nkubectl apply -f deploy/kserve/\nkubectl get inferenceservice {deployed.name}\n```\n\n"
        "The ServingRuntime is this deployment's own. It needs Knative; volumes of kind emptyDir have to be allowed.\n"
    )


def _ray(deployed: Deployment) -> str:
    return (
        "## Ray Serve\n\n"
        "Copy `models/` to `/models` of every node, install `tritonlab[ray]` there, then\n\n"
        "```sh\nserve deploy deploy/ray/serve.yaml\nserve status\n"
        "curl -f http://localhost:8000/v2/health/ready\n```\n\n"
        "It answers the HTTP protocol, streams of `generate_stream` included, but no gRPC, shared\n"
        "memory or sequences. A call that would change one replica, as loading a model, is refused.\n"
    )


def _monitoring(deployed: Deployment) -> str:
    own = sorted({metric for model in deployed.models for metric in model.custom_metrics})
    listed = ", ".join(f"`{metric}`" for metric in own)
    more = f" The models' own metrics are in both: {listed}." if own else ""
    return (
        "## Watching it\n\n"
        "`deploy/monitoring/alerts.yaml` are rules for Prometheus, `dashboard.json` is imported into Grafana."
        f"{more}\nThe limits in the rules are choices; set them to what the service has to keep.\n"
    )


def _check(files: Collection[str]) -> str:
    lines = list(_calls(files))
    if not lines:
        return ""
    return (
        "## Is it right?\n\n```sh\n" + "\n".join(lines) + "\n```\n\n"
        "Each calls localhost; `TRITON_HTTP=host:port` and `TRITON_GRPC=host:port` name another server.\n"
        "Before it ships, the same works against `tritonlab serve --model-repository=models`, and against\n"
        "`tritonlab.serve()` in a notebook.\n"
    )


def _calls(files: Collection[str]) -> Iterator[str]:
    if "client.py" in files:
        yield "python client.py                # one request"
    if "client.sh" in files:
        yield "sh client.sh                    # the same with curl"
    if "test_models.py" in files:
        yield "python -m pytest test_models.py # recorded requests, compared with their recorded answers"


def _trouble(deployed: Deployment) -> str:
    return (
        "## When it does not start\n\n"
        "| The log says | It is |\n|---|---|\n"
        "| `No module named ...` | a package that is neither in the image nor in `requirements.lock` |\n"
        "| `Unable to initialize shared memory key`, or `Failed to increase the shared memory pool` |"
        " `/dev/shm` is full |\n"
        "| nothing, and never ready | an environment or a stub of another release or Python |\n"
        "| `Permission denied` on `triton_python_backend_stub` | mode bits lost on the way, as buckets do |\n"
    )
