"""The facts for the deploy files, taken from models on a server."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....exchanges.exchange import Exchange
from ....record.live_state import memory_use, peak_memory, shm_size
from ....server.api.model import Model
from ....server.api.needed_models import stood_in
from ..releases import Release, find, find_target
from .operator_facts import NO_FACTS, OperatorFacts

_MIB = 1 << 20
#: The least shared memory of a container: each instance of a Python model takes 1 MB before its first request.
LEAST_SHM_MIB = 256
#: The memory of a pod besides /dev/shm and the models' processes: Triton, and the host's part of a GPU's context.
_MEMORY_MIB = 1024
#: The models' part of the limit is a multiple of it: their peak is not the same MiB each time, equal exports are.
_MEMORY_STEP = 256
#: The first release known to report pending requests; 23.07 does not.
_REPORTS_PENDING = "23.10"
#: Where a server has its own copy of the models.
_COPY = "/tmp/models"
_TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class DeployedModel:
    """A model of the repository. `config`: in its JSON form, complete. `custom_metrics`: the metric families of its
    code, name to kind (counter, gauge or histogram). `recorded`: requests for the client and tests. `stood_in`: the
    substitutes that answered here for the model and the models that it needs, by their names.
    """

    name: str
    config: Mapping[str, Any]
    custom_metrics: Mapping[str, str] = field(default_factory=dict)
    recorded: Sequence[Exchange] = ()
    stood_in: Mapping[str, str] = field(default_factory=dict)

    @property
    def instances(self) -> int:
        """Return how many instances each server runs; one if the config has no number."""
        return sum(group.get("count", 1) for group in self.config.get("instance_group", ())) or 1

    @property
    def at_once(self) -> int:
        """The number of requests that each server executes at once: a full batch in each instance."""
        return self.instances * max(self.max_batch_size, 1)

    @property
    def max_batch_size(self) -> int:
        """Return the most inputs of one execution; 0 if the model does not batch."""
        return int(self.config.get("max_batch_size", 0))

    @property
    def is_ensemble(self) -> bool:
        return self.config.get("platform") == "ensemble"

    @property
    def is_decoupled(self) -> bool:
        return bool(self.config.get("model_transaction_policy", {}).get("decoupled"))

    @property
    def keeps_sequences(self) -> bool:
        """Return whether the requests of a sequence need the server that had the first one. A generative sequence is
        one request."""
        batching = self.config.get("sequence_batching")
        return batching is not None and not batching.get("generative_sequence")

    @property
    def on_gpu(self) -> bool:
        """Return whether an instance group requests a GPU."""
        return any(group.get("kind") == "KIND_GPU" for group in self.config.get("instance_group", ()))


@dataclass(frozen=True)
class Deployment:
    """The content of a deployment. `models`: clients call the first one. `peak_shm_bytes`: the most shared memory of
    the stubs at one time, `peak_memory_bytes`: the most memory of each, added; None if not measured. `has_lock`:
    whether `requirements.lock` lies next to `models/`. `backends`: the Python-based backends of the models, in
    `backends/` there. `version`: of the export, as an image tag and a label may have it; two exports of equal files
    have the same. `operator`: the facts for the README. `has_stub`: whether a model directory has a stub for another
    Python.
    """

    models: Sequence[DeployedModel]
    release: Release
    peak_shm_bytes: int | None = None
    has_lock: bool = False
    backends: Sequence[str] = ()
    version: str = ""
    peak_memory_bytes: int | None = None
    operator: OperatorFacts = NO_FACTS
    has_stub: bool = False

    @property
    def name(self) -> str:
        """Return the first model's name as a DNS label, which Kubernetes requires of names."""
        label = re.sub(r"[^a-z0-9]+", "-", self.models[0].name.lower())[:40].strip("-")
        return label if re.match("[a-z]", label) else f"model-{label}".rstrip("-")

    @property
    def image(self) -> str:
        """Return the name of the image that the Dockerfile builds."""
        return f"{self.name}:{self.tag}"

    @property
    def tag(self) -> str:
        """Return the tag of that image: the version of the export, else of Triton."""
        return self.version or str(self.release.container.value)

    @property
    def needs_image(self) -> bool:
        """Return whether the release's own image lacks something that the models need."""
        return self.has_lock or bool(self.backends)

    def command(self, repository: str, *flags: str) -> list[str]:
        """Return the command of the server on a directory of models, which may be read-only.

        Triton sets the mode of a stub in a model directory at each load, which fails where that is read-only or
        another user's (2.51: "Failed to give execute permission"), so that the models are copied before.
        """
        if not self.has_stub:
            return ["tritonserver", f"--model-repository={repository}", *flags]
        server = shlex.join(["tritonserver", f"--model-repository={_COPY}", *flags])
        return ["sh", "-c", f"rm -rf {_COPY} && cp -RP {repository} {_COPY} && exec {server}"]

    @property
    def shm_mib(self) -> int:
        """Return the MiB of shared memory of a container: twice the measured peak, 256 at least."""
        return max(-(-2 * (self.peak_shm_bytes or 0) // _MIB), LEAST_SHM_MIB)

    @property
    def peak_shm_mib(self) -> int | None:
        return None if self.peak_shm_bytes is None else -(-self.peak_shm_bytes // _MIB)

    @property
    def memory_limit_mib(self) -> int | None:
        """Return the MiB of memory that a pod may take, /dev/shm included: twice the models' measured peak, in steps of
        256; None if it was not measured."""
        if not self.peak_memory_bytes:
            return None
        return _MEMORY_MIB + -(-2 * self.peak_memory_bytes // (_MEMORY_STEP * _MIB)) * _MEMORY_STEP + self.shm_mib

    @property
    def memory_mib(self) -> int:
        """Return the MiB of memory that a pod requests, /dev/shm included. A node reserves the whole limit: memory,
        unlike CPU, cannot be taken back."""
        return self.memory_limit_mib or _MEMORY_MIB + self.shm_mib

    @property
    def keeps_sequences(self) -> bool:
        """Return whether one server has to have all requests of a sequence."""
        return any(model.keeps_sequences for model in self.models)

    @property
    def needs_deployment(self) -> bool:
        """Return whether KServe has to run a Deployment of its own: Knative balances each request by itself, and has
        one port, so not both HTTP and the gRPC of streams."""
        return self.keeps_sequences or any(model.is_decoupled for model in self.models)

    @property
    def reports_pending(self) -> bool:
        """Return whether the release has a metric of waiting requests."""
        return self.release.order >= find(_REPORTS_PENDING).order

    @property
    def on_gpu(self) -> bool:
        return any(model.on_gpu for model in self.models)

    @property
    def custom_metrics(self) -> list[tuple[DeployedModel, str, str]]:
        """Return the metric families of the models' code, each with its model, name and kind."""
        return [(model, *metric) for model in self.models for metric in sorted(model.custom_metrics.items())]

    @property
    def stood_in(self) -> dict[str, str]:
        """Return the substitutes that answered here for the models and the models that they need, by their names."""
        return {name: words for model in self.models for name, words in model.stood_in.items()}


def deployment_of(models: Sequence[Model], target: str, *, cases: Iterable[Exchange] = (), **facts: Any) -> Deployment:
    """Return the facts for the deploy files of these models. Clients call the first model. `target`: as for an export.
    `cases`: golden requests for the clients and the tests; cases with an expected error, or with an answer that is not
    the model's own, are left out. `facts`: the facts of a Deployment that the models themselves do not show.

    The shared memory and the memory are the amounts that the stubs of these models have used so far. Raises
    UnknownTarget.
    """
    answered = [case for case in cases if not (case.error or case.unanswered)]
    deployed = [_deployed(model, [case for case in answered if case.model == model.name]) for model in models]
    shm = sum(shm_size(memory_use(model.versions(), model.server_gpus)) for model in models)
    memory = sum(peak_memory(model.versions()) for model in models)
    return Deployment(deployed, find_target(target).release, shm, peak_memory_bytes=memory or None, **facts)


def _deployed(model: Model, cases: Sequence[Exchange]) -> DeployedModel:
    samples = model.server.metrics(model.name)
    kinds = _TYPE.findall(model.server.metrics())
    made = {name: kind for name, kind in kinds if re.search(rf"^{name}(_bucket)?[ {{]", samples, re.MULTILINE)}
    metrics = {name: kind for name, kind in made.items() if not name.startswith("nv_")}
    return DeployedModel(model.name, model.config(), metrics, cases, stood_in(model))
