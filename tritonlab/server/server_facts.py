"""What a server and its models are and have done: metadata, configurations, statistics, and the repository index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..core.config.model_config import ModelConfig
from ..core.status import InvalidArgumentError
from ..repository.model_repository_manager import ModelRepositoryManager
from .models.global_map import GlobalMap
from .models.loaded_model import LoadedModel
from .models.model_lifecycle import ModelState, ModelVersion
from .models.serving_instances import ExecutionOptions
from .observe.metrics_text import ServerMetrics
from .server_metadata import EXTENSIONS, SERVER_VERSION, parse_version

#: What the index says of a name that two repositories have (rule 5.11.10).
_NOT_UNIQUE = "model appears in two or more repositories"


class ServerFacts:
    """The facts of one server. `loading` returns the versions that load, `running` those that serve and then those that
    are being unloaded. Methods about one model raise NotFoundError, UnavailableError,
    InvalidArgumentError.
    """

    def __init__(
        self,
        server_id: str,
        models: GlobalMap,
        loading: Callable[[], list[ModelVersion]],
        running: Callable[[], list[ModelVersion]],
        metrics: ServerMetrics,
        execution: ExecutionOptions,
    ) -> None:
        self._server_id = server_id
        self._models = models
        self._loading = loading
        self._running = running
        self._metrics = metrics
        self._execution = execution

    def server_metadata(self) -> dict[str, Any]:
        """Return `name`, `version` and `extensions` (rule 6.2)."""
        return {"name": self._server_id, "version": SERVER_VERSION, "extensions": list(EXTENSIONS)}

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return the name, READY versions, platform, inputs and outputs, with the shapes that a client sends (rule
        6.1.2).
        """
        number = parse_version(version)
        found = self._models.find(name, number)
        return found.rules.metadata(sorted(self._models[found.identifier].versions) if number == -1 else [number])

    def model_config(self, name: str, version: str = "") -> ModelConfig:
        """Return the complete configuration (rule 5.2)."""
        return self._models.find(name, parse_version(version)).config

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics of rule 5.12.1, in nanoseconds, of one version or of all that serve; without a name,
        of all models. Raises InvalidArgumentError.
        """
        number = parse_version(version)
        found = self._serving()
        if name:
            found = [each for each in found if name in (each.name, each.identifier)]
            if not found:
                raise InvalidArgumentError(f"requested model '{name}' is not available{self._models.left_behind}")
            found = [each for each in found if number in (-1, each.version)]
            if not found:
                raise InvalidArgumentError(f"requested model version is not available for model '{name}'")
        return {"model_stats": [each.stats.to_dict(each.name, each.version) for each in found]}

    def metrics_text(self, model: str = "") -> str:
        """Return Prometheus text, as on Triton's /metrics. Of one model: the samples that name it in their labels, and
        the custom ones that its code made."""
        cache = self._execution.cache
        # a version has one set of lines: the one that serves comes first, then one that ends, then one that loads
        versions: dict[tuple[str, int], ModelVersion] = {}
        for each in [*self._running(), *self._loading()]:
            versions.setdefault((each.identifier, each.version), each)
        text = self._metrics.text(versions.values(), cache.metrics() if cache is not None else None)
        if not model:
            return text
        made = {_sample(line) for line in self._metrics.made_by(model).splitlines()}
        named = f'model="{model}"'
        return "".join(
            f"{line}\n"
            for line in text.splitlines()
            if not line.startswith("#") and (named in line or _sample(line) in made)
        )

    def _serving(self) -> list[ModelVersion]:
        return [version for model in self._models.known() for version in model.versions.values()]


def _sample(line: str) -> str:
    """Return name and labels of a sample, which may have another value by now."""
    return line.rpartition(" ")[0]


def repository_index(
    repository: ModelRepositoryManager, models: Mapping[str, LoadedModel], ready: bool = False
) -> Iterator[dict[str, str]]:
    """Yield the rows of the repository index (rule 5.11.7): `name` of each model, and `version`, `state`, `reason` of
    versions that were loaded or tried. `models`: those that were, by identifier. `ready`: list READY versions only.
    """
    for identifier, directories in repository.directories().items():
        name = repository.split(identifier)[1]
        if len(directories) > 1:
            yield {"name": name, "state": ModelState.UNAVAILABLE.value, "reason": _NOT_UNIQUE}
            continue
        model = models.get(identifier)
        if model is None or not model.is_known:
            if not ready:
                yield {"name": name}
            continue
        for number, (state, reason) in model.states().items():
            if not ready or state == ModelState.READY.value:
                entry = {"name": name, "version": str(number), "state": state}
                yield {**entry, "reason": reason} if reason else entry
