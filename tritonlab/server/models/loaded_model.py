"""The server's record of one model name, and the work of a load on its versions."""

from __future__ import annotations

import copy
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...core.config.model_config_rules import config_differs, identifier
from ...core.status import TritonError
from ...repository.layout import Fingerprint
from ...repository.model_repository_manager import ModelFiles
from .model_lifecycle import ModelState, ModelVersion

#: Fields whose change needs no load of the version (rule 5.11.2).
_IN_PLACE = {"instance_group", "version_policy"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the models of an ensemble do not fit it, and the models that were missing at the check. `place_time`: the
    time of the ensemble's directory then.
    """

    text: str
    missing: frozenset[str] = frozenset()
    place_time: int = 0


class LoadedModel:
    """The server's record of one model: its versions, and the last state of ended versions. `identifier`:
    its name, or with namespacing its namespace and name.
    """

    def __init__(self, name: str, namespace: str = "") -> None:
        self.name = name
        self.namespace = namespace
        self.identifier = identifier(name, namespace)
        #: whether it was loaded, or tried, and not unloaded since
        self.listed = False
        self.lock = threading.RLock()  # one load or unload of the model at a time
        #: how many loads of it have begun; the lock guards it
        self.turn = 0
        #: replaced whole, never changed, so that requests read it without the lock
        self.versions: dict[int, ModelVersion] = {}
        self.latest: ModelVersion | None = None
        #: the files from which `versions` were loaded
        self.files: ModelFiles | None = None
        #: version -> (state, reason) of versions that do not serve: loading for the first time, failed or unloaded; any
        #: thread may change it, so readers copy it
        self.not_ready: dict[int, tuple[ModelState, str]] = {}
        #: the goal of an ensemble's last load, if it was not unloaded since: it is loaded when possible
        self.wanted: ModelFiles | None = None
        #: for an ensemble: the findings of the last check of its models; None if they fit
        self.refusal: Refusal | None = None
        #: why the last load failed; None if it did not, or the model was unloaded since
        self.failure: TritonError | None = None
        #: whether it was loaded by its own name, not only as part of an ensemble
        self.explicit = False
        #: whether the next load must load every version again; the lock guards it
        self.is_stale = False
        #: whether its last load found no version that the policy selects
        self.is_without_version = False

    @property
    def is_known(self) -> bool:
        """Return whether it was loaded, or tried, at least once; a model that cannot be read was not."""
        return bool(self.versions or self.not_ready) or self.is_without_version

    def reload_all(self) -> None:
        """Load every version again at the next load, even if no file has changed."""
        with self.lock:
            self.is_stale = True

    def forget(self) -> None:
        """Forget the settings and findings of its loads, since it is unloaded."""
        self.wanted, self.explicit, self.listed, self.failure, self.refusal = None, False, False, None, None

    def serve(self, versions: dict[int, ModelVersion], files: ModelFiles | None) -> None:
        """Send new requests to these versions from now on."""
        self.versions, self.is_stale = versions, False
        self.latest = versions[max(versions)] if versions else None
        self.files = files

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Load it within this context, which keeps the error of a failure until a load succeeds."""
        try:
            yield
        except TritonError as error:
            # a copy, without the frames, which would keep their objects alive
            self.failure = copy.copy(error)
            raise
        self.failure = None

    def states(self) -> dict[int, tuple[str, str]]:
        """Return state and reason of every version that was loaded or tried, as in the index, lowest first."""
        states = {number: (state.value, reason) for number, (state, reason) in self.not_ready.copy().items()}
        states |= {number: (version.state.value, version.reason) for number, version in self.versions.items()}
        return dict(sorted(states.items()))

    def settled(self) -> bool:
        """Return whether every version serves or was unloaded on purpose (rule 5.11.9)."""
        if self.is_without_version and not (self.versions or self.not_ready):
            return False
        if not all(version.ready() for version in self.versions.values()):
            return False
        others = [pair for number, pair in self.not_ready.copy().items() if number not in self.versions]
        return all(state is ModelState.UNAVAILABLE and reason == "unloaded" for state, reason in others)


@dataclass(frozen=True)
class Changes:
    """The work of a load: the versions to load and to keep; the versions in `update` get other instances."""

    load: tuple[int, ...]
    keep: tuple[int, ...] = ()
    update: bool = False

    def nothing(self, serving: Collection[int]) -> bool:
        return bool(serving) and not self.load and not self.update and set(self.keep) == set(serving)


def find_changes(serving: Collection[int], now: ModelFiles | None, found: ModelFiles) -> Changes:
    """Compare the files of the `serving` versions with the `found` ones (rule 5.11.2).

    A version is loaded again if a file of its directory has changed; all are if a file above them has, or a field of
    the configuration other than `instance_group` and `version_policy`.
    """
    # a load with files makes its own directory, so it always differs; Triton ignores files of a version that already
    # serves (measured)
    if now is None or not serving or (now.directory != found.directory or _part(now, "") != _part(found, "")):
        return Changes(found.versions)
    if now.override is not None and found.override is None and now.fingerprint == found.fingerprint:
        # Triton reads config.pbtxt again only if a file has changed; until then the config of a load stays (measured)
        return Changes((), tuple(serving))
    differing = config_differs(now.config, found.config)
    if differing - _IN_PLACE or ("instance_group" in differing and not _can_update(now, found)):
        return Changes(found.versions)
    keep = tuple(v for v in found.versions if v in serving and _part(now, str(v)) == _part(found, str(v)))
    load = tuple(v for v in found.versions if v not in keep)
    return Changes(load, keep, "instance_group" in differing)


def _can_update(now: ModelFiles, found: ModelFiles) -> bool:
    """Return whether a version may get other instances while it serves. It may not if slots of sequences belong to
    instances, or if instances are passive, although Triton can in both cases.
    """
    groups = [*now.config.instance_group, *found.config.instance_group]
    return not found.config.HasField("sequence_batching") and not any(group.passive for group in groups)


def _part(files: ModelFiles, directory: str) -> Fingerprint:
    """Return the fingerprint of a version's directory, or of everything outside of them except the configuration."""
    return {
        path: stamp
        for path, stamp in files.fingerprint.items()
        if _version_of(path) == directory and not files.is_configuration(path)
    }


def _version_of(path: str) -> str:
    first, slash, _ = path.partition("/")
    return first if slash and first.isascii() and first.isdecimal() else ""
