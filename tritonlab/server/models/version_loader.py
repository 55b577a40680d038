"""`VersionLoader` loads versions of models, all that a load wants or none, and lets them take over."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from ...core.status import ModelError, ModelLoadError, TritonError, UnavailableError
from ...ipc.processes.stub_log import LogRecord
from .endings import Endings
from .loaded_model import Changes, LoadedModel
from .model_lifecycle import ModelState, ModelVersion
from .model_repository_manager import ModelFiles
from .version_load import LoadServices


class VersionLoader:
    """The loader of versions, one after the other. `on_state` gets every state of every version; `endings` ends those
    that were replaced, `drain_seconds` later at most, and those that were loaded although another failed.
    """

    def __init__(
        self,
        services: LoadServices,
        on_state: Callable[[ModelVersion, str], None],
        endings: Endings,
        drain_seconds: float | None,
    ) -> None:
        #: nothing loads any more
        self.stopped = False
        self._services = services
        self._on_state = on_state
        self._endings = endings
        self._drain_seconds = drain_seconds
        self._loading: set[ModelVersion] = set()

    def swap(self, model: LoadedModel, found: ModelFiles, changes: Changes) -> None:
        """Let the versions of `changes` take over from those that serve. Raises ModelLoadError; then those go on. The
        caller holds the model's lock."""
        model.is_without_version = not found.versions
        if not found.versions:
            text = f"at least one version must be available under the version policy of model '{model.identifier}'"
            self.say(model.name, f"failed to load model '{model.identifier}': {text}")
            raise ModelLoadError(f"load failed for model '{model.identifier}': {text}\n", reason=text)
        if changes.update:
            self._update_instances(model, found, changes.keep)
        loaded = self._load(model, found, changes.load)
        old = model.versions
        model.serve({number: loaded.get(number) or old[number] for number in found.versions}, found)
        for number in loaded:
            model.ended.pop(number, None)
        replaced = [version for number, version in old.items() if model.versions.get(number) is not version]
        endings = [self._endings.end(model, version) for version in replaced]
        self._endings.limit(endings, self._drain_seconds)

    def _load(self, model: LoadedModel, found: ModelFiles, numbers: Collection[int]) -> dict[int, ModelVersion]:
        """Return the versions of these numbers, loaded. Raises ModelLoadError, and none is loaded then."""
        loaded: dict[int, ModelVersion] = {}
        failed: dict[int, TritonError] = {}
        try:
            for number in numbers:
                outcome = self._load_version(model, found, number)
                if isinstance(outcome, ModelVersion):
                    loaded[number] = outcome
                else:
                    failed[number] = outcome
        except BaseException:  # an interrupt: nobody will ever serve what was loaded
            for version in loaded.values():
                version.abort()
            raise
        if failed:
            for version in loaded.values():
                self._endings.end(model, version)
            raise _load_failure(model.identifier, failed, ModelState.UNAVAILABLE)
        return loaded

    def _update_instances(self, model: LoadedModel, found: ModelFiles, numbers: Collection[int]) -> None:
        """Gives versions that serve other instances. Raises ModelLoadError; those that failed serve as before."""
        failed: dict[int, TritonError] = {}
        for number in numbers:
            try:
                model.versions[number].update_instances(found)
            except TritonError as error:
                self.say(model.name, f"failed to update '{model.identifier}' version {number}: {error.message}")
                failed[number] = error
        if failed:
            raise _load_failure(model.identifier, failed, ModelState.READY)

    def _load_version(self, model: LoadedModel, found: ModelFiles, number: int) -> ModelVersion | TritonError:
        """Return the version, or why it does not load, after as many tries as `load_retries` allows."""
        retries = self._services.load_retries
        while True:
            version = ModelVersion(found, number, self._services, self._on_state)
            error = self._try(version)
            if error is None:
                return version
            self.say(model.name, f"failed to load '{model.identifier}' version {number}: {version.reason}")
            if not retries or self.stopped:
                break
            retries -= 1
        if number not in model.versions:
            model.ended[number] = (version.state, version.reason)
        return error

    def _try(self, version: ModelVersion) -> TritonError | None:
        self._loading.add(version)
        try:
            if self.stopped:  # after the line above: `stop` sees it, or this is seen here
                raise UnavailableError("Server is stopping")
            version.load()
        except TritonError as error:
            return error
        finally:
            self._loading.discard(version)
        return None

    def loading(self) -> list[ModelVersion]:
        """Return the versions that are being loaded."""
        return list(self._loading)

    def end(self, name: str) -> None:
        """End the loads that go on for the models of this name, so that they fail."""
        for version in list(self._loading):
            if name in (version.name, version.identifier):
                version.abort()

    def stop(self) -> None:
        """End the loads that go on, since they would serve nobody. It tries again and again, since a load may be
        between two steps that can be ended.
        """
        self.stopped = True
        while loading := list(self._loading):
            for version in loading:
                version.abort()
            time.sleep(0.01)

    def say(self, model: str, text: str) -> None:
        """Add an error to the server's log, in the model's name."""
        self._services.instances.log.add(
            LogRecord(
                time_ns=time.time_ns(), model=model, version=-1, instance="", stream="server", level="ERROR", text=text
            )
        )


def _load_failure(name: str, failed: Mapping[int, TritonError], state: ModelState) -> ModelLoadError:
    versions = [
        f"version {number} is at {state.value} state: {error.code.text}: {error.message};"
        for number, error in sorted(failed.items())
    ]
    first = failed[min(failed)]
    error = ModelLoadError(f"load failed for model '{name}': {''.join(versions)}\n", reason=first.message)
    if isinstance(first, ModelError):
        error.exception, error.log = first.exception, first.log
        error.reason = first.reason or first.message
    return error
