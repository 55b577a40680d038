"""Model repositories on disk: which models there are, their configuration, versions and fingerprints. Nothing here
loads anything."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.model_config import ConfigError, ModelConfig, from_json, parse_pbtxt
from ..core.model_config_rules import autofill, is_ensemble, validate_poll
from ..core.status import Code, InvalidArgumentError, ModelLoadError

CONFIG_FILE = "config.pbtxt"
#: What Python leaves behind while a model runs is no change of the model (server issue 7489: the peer reloads for it).
_IGNORED = ("__pycache__",)

#: path relative to the model directory -> (modification time ns, size)
Fingerprint = dict[str, tuple[int, int]]


class TemporaryFolder:
    """A directory that goes with its last user; tempfile.TemporaryDirectory warns when left to the collector."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="tritonlab-model-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass(frozen=True)
class ModelFiles:
    """One model as it lies on disk, read and filled in, before its own auto_complete_config.

    `repository` is the path as the server was given it: relative stays relative (rule 1.1.5). `versions` are those
    the policy selects, lowest first.
    """

    name: str
    directory: Path
    config: ModelConfig
    versions: tuple[int, ...]
    fingerprint: Fingerprint
    #: the config text or JSON that was passed with the load, if any
    override: str | None = None
    #: the directory made for file overrides; it is removed when the last version that uses it is gone
    temporary: TemporaryFolder | None = None

    @property
    def configured(self) -> bool:
        """Whether there is a config.pbtxt, or one was passed; else the model's auto_complete_config has to say it
        all."""
        return self.override is not None or CONFIG_FILE in self.fingerprint


class ModelRepositoryManager:
    """Reads models from one or more repositories; the first that has a model of the name wins."""

    def __init__(self, repositories: Sequence[str | Path]) -> None:
        self.repositories = [Path(repository) for repository in repositories]

    def names(self) -> list[str]:
        """Every directory of every repository, sorted."""
        found: set[str] = set()
        for repository in self.repositories:
            if repository.is_dir():
                found.update(p.name for p in repository.iterdir() if p.is_dir() and not p.name.startswith("."))
        return sorted(found)

    def read(
        self, name: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> ModelFiles:
        """The model `name`, with what a load request overrides (rule 5.11.3).

        Raises ModelLoadError with the short text clients get; its `reason` is what the peer only logs (rule 2.5.3).
        """
        try:
            return self._read(name, config, files)
        except ConfigError as error:
            detail = f" ({error.detail})" if error.detail else ""
            reason = f"Poll failed for model directory '{name}': {error.reason}{detail}"
            raise _poll_failure(name, reason) from None

    def _read(self, name: str, config: dict[str, Any] | str | None, files: dict[str, bytes] | None) -> ModelFiles:
        _check_name(name)
        override = json.dumps(config) if isinstance(config, dict) else config
        temporary = None
        if files:
            if override is None:
                raise _poll_failure(name, "Load parameter 'config' must be specified for model file override")
            temporary = _write_files(files)
            directory: Path | None = Path(temporary.name)
        else:
            directory = next((r / name for r in self.repositories if (r / name).is_dir()), None)
        if directory is None:
            searched = ", ".join(f"'{repository}'" for repository in self.repositories) or "no repository"
            raise _poll_failure(name, f"there is no directory '{name}' in {searched}")
        found = self._config(directory, name, override)
        versions = _version_directories(directory)
        first = sorted(str(version) for version in versions)[:1]
        names = [p.name for p in (directory / first[0]).iterdir()] if first else []
        filled = autofill(found, model_name=name, files=names)
        validate_poll(filled, model_name=name)
        selected = _select(filled, versions)
        if not selected and is_ensemble(filled):
            selected = (1,)
        return ModelFiles(name, directory, filled, selected, fingerprint(directory), override, temporary)

    @staticmethod
    def _config(directory: Path, name: str, override: str | None) -> ModelConfig:
        if override is not None:
            return from_json(override)
        path = directory / CONFIG_FILE
        if not path.is_file():
            return ModelConfig()
        try:
            return parse_pbtxt(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"failed to read text proto from {path}", detail=str(error)) from error


def fingerprint(directory: Path) -> Fingerprint:
    """What a reload compares: every file with its modification time and size."""
    found: Fingerprint = {}
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        if path.is_file() and not any(part in _IGNORED for part in relative.parts):
            status = path.stat()
            found[str(relative)] = (status.st_mtime_ns, status.st_size)
    return found


def _check_name(name: str) -> None:
    """Rule 5.11.4: a name must not lead out of the repository."""
    if not name:
        raise InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy.")
    if "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidArgumentError(
            f"invalid model name '{name}', model name must not contain path traversal characters"
        )


def _version_directories(directory: Path) -> list[int]:
    """Decimal names without a leading zero, `0` itself included (rule 2.1.1)."""
    return sorted(
        int(path.name)
        for path in directory.iterdir()
        if path.is_dir() and path.name.isascii() and path.name.isdecimal() and str(int(path.name)) == path.name
    )


def _select(config: ModelConfig, versions: list[int]) -> tuple[int, ...]:
    """The versions the policy wants of those there are (rule 5.11.6), lowest first."""
    policy = config.version_policy
    if policy.HasField("specific"):
        return tuple(version for version in versions if version in policy.specific.versions)
    if policy.HasField("latest"):
        newest = policy.latest.num_versions
        return tuple(versions[-newest:]) if newest else ()
    return tuple(versions)  # `all`, and a policy that names none of the three


def _write_files(files: dict[str, bytes]) -> TemporaryFolder:
    """File overrides as a model directory of their own; keys without the prefix are ignored, as the peer does (rule
    1.15.4)."""
    temporary = TemporaryFolder()
    directory = Path(temporary.name).resolve()
    for key, content in files.items():
        if not key.startswith("file:"):
            continue
        path = (directory / key.removeprefix("file:")).resolve()
        if not path.is_relative_to(directory):
            raise InvalidArgumentError(
                f"Invalid file parameter '{key}' with normalized path '{path}' must stay within model directory."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return temporary


def _poll_failure(name: str, reason: str) -> ModelLoadError:
    return ModelLoadError(
        f"failed to load '{name}', failed to poll from model repository", code=Code.INTERNAL, reason=reason
    )
