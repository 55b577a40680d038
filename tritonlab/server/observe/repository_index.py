"""The repository index: what the repositories hold now, and its state (rule 5.11.7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...repository.model_repository_manager import ModelRepositoryManager
from ..models.loaded_model import LoadedModel
from ..models.model_lifecycle import ModelState

#: What the index says of a name that two repositories have (rule 5.11.10).
_NOT_UNIQUE = "model appears in two or more repositories"


def repository_index(
    repository: ModelRepositoryManager, models: Mapping[str, LoadedModel], ready: bool = False
) -> Iterator[dict[str, str]]:
    """Return `name` of each model, and `version`, `state`, `reason` of versions that were loaded or tried. `models`:
    those that were, by identifier. `ready`: list READY versions only.
    """
    for identifier, directories in repository.directories().items():
        name = repository.split(identifier)[1]
        if len(directories) > 1:
            yield {"name": name, "state": ModelState.UNAVAILABLE.value, "reason": _NOT_UNIQUE}
            continue
        model = models.get(identifier)
        states = model.states() if model is not None else {}
        for number, (state, reason) in states.items():
            if not ready or state == ModelState.READY.value:
                entry = {"name": name, "version": str(number), "state": state}
                yield {**entry, "reason": reason} if reason else entry
        if not states and not ready:
            yield {"name": name}
