"""The part of a server's core that reports what it does now."""

from __future__ import annotations

from ..core.clock import Clock
from ..core.observe.failure_capsule import FailureBook
from ..core.status import NotFoundError, TritonError, UnavailableError
from .build import Parts
from .models.endings import Ending
from .models.global_map import GlobalMap
from .models.loaded_model import LoadedModel
from .models.model_control import ModelControl
from .models.model_lifecycle import ModelVersion
from .models.model_repository_manager import ModelRepositoryManager
from .observe.idle_memory import MemoryUse
from .observe.repository_index import repository_index
from .observe.requests_in_flight import HeldRequest, survey
from .observe.why import ServerSnapshot, Why, why
from .options import Options
from .server_metadata import parse_version


class RunningServer:
    """Which models a server has, whether it is ready, and which requests are in flight and what they wait for."""

    clock: Clock
    failures: FailureBook
    repository: ModelRepositoryManager
    _control: ModelControl
    _models: GlobalMap
    _options: Options
    _parts: Parts

    def live(self) -> bool:
        return not self._control.stopped

    def ready(self) -> bool:
        """Return whether nothing is loading, failed or without a living stub (rule 5.11.9)."""
        return self.live() and (not self._options.strict_readiness or self._models.settled())

    def model_ready(self, name: str, version: str = "") -> bool:
        """Return whether a version can answer; what is unknown cannot (rule 1.15.7). Raises InvalidArgumentError for a
        version that is not a number, and for a name that several models have.
        """
        try:
            return self._models.find(name, parse_version(version)).ready()
        except (NotFoundError, UnavailableError):
            return False

    def index(self, ready: bool = False) -> list[dict[str, str]]:
        """Return the repository index (rule 5.11.7): `name`, and `version`, `state`, `reason` of versions that were
        loaded or tried. `ready`: list READY versions only.
        """
        return list(repository_index(self.repository, self._models, ready))

    def models(self) -> list[LoadedModel]:
        """Return every model that was loaded, or tried, at least once."""
        return self._models.known()

    def model(self, name: str) -> LoadedModel | None:
        try:
            return self._models.get(name) or self._models.only(name)
        except TritonError:
            return None

    def requests(self) -> list[HeldRequest]:
        """Return every request in flight, also those of versions that are being unloaded, oldest first."""
        return survey(self._control.running(), self._parts.executor.calls(), self.clock.now())

    def loading(self, name: str = "") -> list[ModelVersion]:
        """Return the versions, of one model or all, that are being loaded."""
        return [version for version in self._control.loading() if not name or version.name == name]

    def draining(self, name: str = "") -> list[Ending]:
        """Return the versions, of one model or all, that serve no new requests and have not ended, oldest first."""
        return self._control.draining(name)

    def memory(self) -> MemoryUse:
        """Return what this process and those of the models take in memory now."""
        return self._parts.idle_memory.use()

    def why(self, name: str = "") -> Why:
        """Return what everything waits for, of one model or of all, and why the last loads failed. Blocks while the
        stubs on the way say what they are doing, a second each at most.
        """
        control, calls, now = self._control, self._parts.executor.calls(), self.clock.now()
        held = survey(control.running(), calls, now)
        models = [model for _, model in sorted(control.models.items())]
        return why(
            ServerSnapshot(
                models,
                versions=control.running(),
                loading=control.loading(),
                held=held,
                calls=calls,
                failures=self.failures,
                now=now,
            ),
            name,
        )
