"""The application that Ray Serve deploys: replicas of one repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from ray import serve

from ..core.config.model_config import ModelConfig, read_config
from ..core.status import InvalidArgumentError
from .replica import Replica, check_config

#: The name of the deployment in Ray's dashboard and in serve.yaml.
NAME = "TritonModels"
#: The target for requests in progress on a replica, if the configs do not show how many it executes at once.
_ONGOING = 2
#: How many times the target a replica accepts, so that models with batching have requests to batch.
_MORE = 4


def make_application(
    model_repository: str | Path,
    models: Sequence[str] = (),
    *,
    num_cpus: float = 1,
    num_gpus: float = 0,
    min_replicas: int = 1,
    max_replicas: int = 4,
    target_ongoing_requests: float = 0,
    autoscaling_config: Mapping[str, Any] | None = None,
) -> Any:
    """Return the application that serves a repository with the HTTP protocol of Triton, for `serve.run`.

    Args:
        model_repository: a directory that every node has.
        models: the names of the models; all if empty.
        num_cpus: the CPUs that each replica reserves.
        num_gpus: the GPUs that each replica reserves.
        min_replicas: the least replicas that run.
        max_replicas: the most replicas that run.
        target_ongoing_requests: the requests in progress on each replica by which their number is chosen; 0 stands
            for as many as the models execute at once.
        autoscaling_config: overrides single settings of Ray's.

    Raises InvalidArgumentError for a model that keeps sequences.
    """
    executes = _at_once(Path(model_repository), models)  # raises even if the number is not needed
    target = target_ongoing_requests or executes or _ONGOING
    scaling: dict[str, Any] = {
        "min_replicas": min_replicas,
        "max_replicas": max_replicas,
        "target_ongoing_requests": target,
        # Ray's own are 10, 30 and 30 seconds, chosen for deployments with a slow start
        "metrics_interval_s": 1.0,
        "look_back_period_s": 4.0,
        "upscale_delay_s": 1.0,
    }
    deployment: Any = serve.deployment(
        serve.ingress()(Replica),
        name=NAME,
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
        autoscaling_config={**scaling, **(autoscaling_config or {})},
        max_ongoing_requests=max(int(target * _MORE), 16),
        # a line for each request costs more than a small model
        logging_config={"enable_access_log": False},
        health_check_period_s=2.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_wait_loop_s=0.5,
    )
    return deployment.bind(str(model_repository), tuple(models))


def application(args: Mapping[str, Any]) -> Any:
    """Return the application for the `import_path` of a serve.yaml; `args` are the arguments of `make_application`.

    Raises InvalidArgumentError for an unknown argument.
    """
    known = signature(make_application).parameters
    unknown = [name for name in args if name not in known]
    if unknown or "model_repository" not in args:
        what = f"'{unknown[0]}' is not one of them" if unknown else "model_repository is missing"
        raise InvalidArgumentError(f"the args of an application are {', '.join(known)}: {what}")
    return make_application(**args)


def _at_once(repository: Path, models: Sequence[str]) -> int:
    """Return how many requests a replica executes at once, by the configs that are readable here; 0 if none is. Raises
    InvalidArgumentError for a model that keeps sequences."""
    most = 0
    for file in sorted(repository.glob("*/config.pbtxt")):
        name = file.parent.name
        if models and name not in models:
            continue
        config = read_config(file)
        check_config(name, config)
        most = max(most, _executes(config))
    return most


def _executes(config: ModelConfig) -> int:
    instances: int = sum(max(group.count, 1) for group in config.instance_group) or 1
    return instances * max(int(config.max_batch_size), 1)
