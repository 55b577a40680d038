"""Model repositories on disk: their models, with configuration, versions and fingerprints. Nothing is loaded here."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.config.model_config import ConfigError, ModelConfig, from_json, print_pbtxt, read_config
from ..core.config.model_config_rules import identifier, polled
from ..core.foreign_file import open_file
from ..core.scratch_directory import ScratchDirectory
from ..core.status import AlreadyExistsError, Code, InternalError, InvalidArgumentError, ModelLoadError, TritonError
from .layout import CONFIG_FILE, CONFIGS, Fingerprint, read_contents

#: The most levels of a path written for a load. Python's functions that make, read and remove directories recurse once
#: per level, and near the recursion limit garbage collection fails, too. Triton 2.51 crashes there.
_MOST_LEVELS = 400
#: The directory of Triton's agents; `checksum` is the only one in NVIDIA's containers.
_AGENTS = "/opt/tritonserver/repoagents"


@dataclass(frozen=True)
class ModelFiles:
    """One model on disk, read and completed, before its own auto_complete_config.

    `repository` is the path as the server was given it: relative stays relative (rule 1.1.5). `versions` are selected
    by the policy, lowest first. `fingerprint` covers only the directory: like Triton, a load does not notice changes of
    a Python-based backend's model.py or of an archive elsewhere (measured on 2.51); unload, then load does.
    """

    name: str
    directory: Path
    config: ModelConfig
    versions: tuple[int, ...]
    fingerprint: Fingerprint
    #: the config JSON that was passed with the load, if any
    override: str | None = None
    #: the directory made for file overrides; it is removed with the last version that uses it
    temporary: ScratchDirectory | None = None
    #: the path of the configuration file, whether or not it exists
    config_file: str = CONFIG_FILE
    #: the repository of the model, if it distinguishes models of one name
    namespace: str = ""
    #: the model directory whose files are linked into it
    base: Path | None = None

    @property
    def identifier(self) -> str:
        return identifier(self.name, self.namespace)

    @property
    def configured(self) -> bool:
        """Return whether a configuration exists or was passed; otherwise auto_complete_config must give all of it."""
        return self.override is not None or self.config_file in self.fingerprint

    def is_configuration(self, path: str) -> bool:
        """Return whether `path` is a configuration: the one that is read, or an alternative beside it."""
        return path == self.config_file or (self.config_file != CONFIG_FILE and path.startswith(f"{CONFIGS}/"))


def check_repositories(paths: Sequence[str | Path]) -> None:
    """Refuse paths that are not directories when a server starts, with Triton's texts (measured). Raises InternalError,
    InvalidArgumentError.
    """
    for path in paths:
        if not os.path.exists(path):
            raise InternalError(f"failed to stat file {path}")
        if not os.path.isdir(path):
            raise InvalidArgumentError("repository path is not a valid directory")


class ModelRepositoryManager:
    """The models of one or more repositories, by their identifiers.

    An identifier is the model's name, unique among the repositories (rule 5.11.10), or with `namespacing` the
    repository and the name (rule 5.11.12). `strict`: each model needs a configuration (rule 5.1.5). `config_name`: the
    configuration is in the file of this name, if it exists (rule 5.1.7). `replaced`: whether something else answers for
    a model of a repository, so that a directory without files and configuration is a model.
    """

    def __init__(
        self,
        repositories: Sequence[str | Path],
        strict: bool = False,
        config_name: str = "",
        namespacing: bool = False,
        replaced: Callable[[str, Path], bool] = lambda name, repository: False,
    ) -> None:
        self._replaced = replaced
        self.repositories = [Path(repository) for repository in repositories]
        self._strict = strict
        self._config_name = config_name
        self.namespacing = namespacing
        #: repository -> directory name -> model name, where they differ
        self._mappings: dict[Path, dict[str, str]] = {}
        #: repositories whose models count only if no other repository has a model of that name
        self._behind: set[Path] = set()
        #: the directories of other owners over which models are written
        self._bases: dict[str, Path] = {}
        #: names that lead out of a repository or deeper into it, of models of the start
        self._elsewhere: frozenset[str] = frozenset()

    def allow(self, names: Iterable[str]) -> None:
        """Allow these models to be outside a repository, or deeper in it: the server's owner may name `team/model`, its
        clients may not (rule 5.11.4).
        """
        self._elsewhere = frozenset(filter(_leads_elsewhere, names))

    def register(
        self, repository: str | Path, name_mapping: Mapping[str, str] | None = None, *, behind: bool = False
    ) -> None:
        """Add a repository; `name_mapping` maps its directories to other model names. `behind`: a model of the same
        name in another repository takes precedence, and of two such repositories the first one added; Triton serves
        neither. Raises InvalidArgumentError, AlreadyExistsError, with Triton's texts.
        """
        path, mapping = Path(repository), dict(name_mapping or {})
        if not path.is_dir():
            raise InvalidArgumentError(f"failed to register '{repository}', repository not found")
        if path in self.repositories:
            raise AlreadyExistsError(f"model repository '{repository}' has already been registered")
        taken = {name for known in self._mappings.values() for name in known.values()}
        for number, name in enumerate(mapping.values()):
            if name in taken:
                raise AlreadyExistsError(f"failed to register '{name}', there is a conflicting mapping for '{name}'")
            if name in list(mapping.values())[:number]:
                raise InvalidArgumentError(
                    f"failed to register '{repository}', there is a conflicting mapping for '{name}'"
                )
        self._mappings[path] = mapping
        if behind:
            self._behind.add(path)
        self.repositories = [*self.repositories, path]

    def unregister(self, repository: str | Path) -> None:
        """Forget a repository; models loaded from it stay loaded. Raises InvalidArgumentError."""
        path = Path(repository)
        if path not in self.repositories:
            raise InvalidArgumentError(f"failed to unregister '{repository}', repository not found")
        self.repositories = [known for known in self.repositories if known != path]
        self._mappings.pop(path, None)
        self._behind.discard(path)

    def write_over(self, name: str, base: Path | None) -> None:
        """Remember the model directory, of another owner, over which the model of this name was written."""
        self._bases = {key: path for key, path in self._bases.items() if key != name} | ({name: base} if base else {})

    def base_of(self, name: str) -> Path | None:
        """Return the model directory over which a model was written."""
        return self._bases.get(name)

    def inside_of(self, name: str, directory: Path) -> list[Path]:
        """Return the repositories whose files count as part of a model in `directory`."""
        return [place.parent for place in (directory, self.base_of(name)) if place is not None]

    def is_kept(self, name: str) -> bool:
        """Return whether the files of a model belong to another owner and stay unchanged: it is in a repository behind
        the others, or was written over one.
        """
        places = self._places("", name)
        return name in self._bases or any(place.parent in self._behind for place in places)

    def directories(self) -> dict[str, list[Path]]:
        """Return every model directory of every repository by the model's identifier, sorted by it.

        Hidden ones are left out, unlike on Triton, where `.ipynb_checkpoints` is a model that cannot be loaded.
        """
        found: dict[str, list[Path]] = {}
        for repository in self.repositories:
            mapping = self._mappings.get(repository, {})
            for path in repository.iterdir() if repository.is_dir() else ():
                if path.is_dir() and not path.name.startswith("."):
                    name = mapping.get(path.name, path.name)
                    found.setdefault(identifier(name, self._namespace(repository)), []).append(path)
        return {name: self._in_front(found[name]) for name in sorted(found)}

    def _in_front(self, places: list[Path]) -> list[Path]:
        """Return the places of one model that take precedence."""
        if len(places) < 2 or not self._behind:
            return places
        return [place for place in places if place.parent not in self._behind] or places[:1]

    def names(self) -> list[str]:
        """Return every model of every repository, sorted."""
        return list(self.directories())

    def _namespace(self, repository: Path) -> str:
        return str(repository) if self.namespacing else ""

    def split(self, identifier: str) -> tuple[str, str]:
        """Return the namespace and the name in an identifier."""
        for repository in self.repositories if self.namespacing else ():
            if identifier.startswith(f"{repository}::"):
                return str(repository), identifier.removeprefix(f"{repository}::")
        return "", identifier

    def namespaces(self, name: str) -> list[str]:
        """Return the namespaces that have a model of this name; none without namespacing."""
        if not self.namespacing:
            return []
        found = map(self._namespace, self.repositories)
        return [namespace for namespace in found if self.holds(identifier(name, namespace))]

    def identifiers(self, name: str) -> list[str]:
        """Return the identifiers for a load by this name: the model of every repository that has one."""
        found = self.namespaces(name) if self.namespacing else []
        return [identifier(name, namespace) for namespace in found] if found else [name]

    def holds(self, identifier: str) -> bool:
        """Return whether exactly one such model exists."""
        return len(self._places(*self.split(identifier))) == 1

    def _places(self, namespace: str, name: str) -> list[Path]:
        if _leads_elsewhere(name) and name not in self._elsewhere:
            return []
        found = []
        for repository in self.repositories:
            if self.namespacing and str(repository) != namespace:
                continue
            mapping = self._mappings.get(repository, {})
            named = next((directory for directory, model in mapping.items() if model == name), name)
            # not Path.is_dir, which raises for impossible directory names
            if os.path.isdir(repository / named) and mapping.get(named, named) == name:
                found.append(repository / named)
        return self._in_front(found)

    def _directory(self, namespace: str, name: str) -> Path:
        """Return the model's directory. Raises ModelLoadError if it is in no place, or in several (rule 5.11.10)."""
        found = self._places(namespace, name)
        if len(found) == 1:
            return found[0]
        if found:
            raise poll_failure(name, f"failed to poll model '{name}': not unique across all model repositories")
        searched = ", ".join(f"'{repository}'" for repository in self.repositories) or "no repository"
        raise poll_failure(
            name,
            f"failed to poll model '{name}': model not found in any model repository: "
            f"there is no directory '{name}' in {searched}",
        )

    def read(
        self, identifier: str, config: dict[str, Any] | str | None = None, files: dict[str, bytes] | None = None
    ) -> ModelFiles:
        """Read the model, with the overrides of a load request (rule 5.11.3).

        Raises ModelLoadError with the short text for clients; its `reason` is the text that Triton only logs (rule
        2.5.3).
        """
        try:
            return self._read(identifier, config, files)
        except TritonError:
            raise
        except Exception as error:  # with any files, only this model fails
            reason = f"Poll failed for model directory '{identifier}': {_poll_problem(error)}"
            cause = None if isinstance(error, ConfigError) else error
            raise poll_failure(self.split(identifier)[1], reason) from cause

    def _read(self, identifier: str, config: dict[str, Any] | str | None, files: dict[str, bytes] | None) -> ModelFiles:
        namespace, name = self.split(identifier)
        override = json.dumps(config) if isinstance(config, dict) else config
        overriding = None if override is None else from_json(override)
        temporary = None
        if files:
            if overriding is None:
                raise poll_failure(name, "Load parameter 'config' must be specified for model file override")
            temporary = ScratchDirectory("model-")
            directory = temporary.path
            _write_files(directory, files)
            # like Triton: the model finds its configuration there, whatever the files contain
            (directory / CONFIG_FILE).write_text(print_pbtxt(overriding), encoding="utf-8")
        else:
            directory = self._directory(namespace, name)
        contents = read_contents(directory)  # first, so that changes during the load count for the next load
        named = f"{CONFIGS}/{self._config_name}.pbtxt"
        config_file = named if self._config_name and os.path.isfile(directory / named) else CONFIG_FILE
        found = self._read_config(directory / config_file) if overriding is None else overriding
        _run_agents(found, directory)
        if found == ModelConfig() and not contents.first_files and self._replaced(name, directory.parent):
            found.backend = "python"  # the model that passes requests on is in Python
        filled = polled(found, model_name=name, files=contents.first_files)
        return ModelFiles(
            name=name,
            directory=directory,
            config=filled,
            versions=select_versions(filled, contents.versions),
            fingerprint=contents.fingerprint,
            override=override,
            temporary=temporary,
            config_file=config_file,
            namespace=namespace,
            base=self.base_of(name),
        )

    def _read_config(self, path: Path) -> ModelConfig:
        if path.is_dir() or path.is_fifo() or path.is_socket():
            raise ConfigError(f"failed to read text proto from {path}", detail="it is not a file")
        if not path.is_file():
            if self._strict:
                raise ConfigError(f"failed to open text file for read {path}: No such file or directory")
            return ModelConfig()
        try:
            return read_config(path)
        except OSError as error:
            raise ConfigError(f"failed to read text proto from {path}", detail=str(error)) from error


def _poll_problem(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return f"{error.reason} ({error.detail})" if error.detail else error.reason
    if isinstance(error, PermissionError):
        return f"failed to open directory {error.filename} ({error.strerror})"
    return f"{type(error).__name__}: {error}"


def check_name(name: str) -> None:
    """Refuse names that no client may load or unload (rule 5.11.4). Raises InvalidArgumentError."""
    trimmed = name.strip()
    if not trimmed:
        raise InvalidArgumentError("Model name cannot be empty. Please enter a valid name to deploy.")
    if _leads_elsewhere(trimmed):
        raise InvalidArgumentError(
            f"invalid model name '{name}', model name must not contain path traversal characters"
        )


def _leads_elsewhere(name: str) -> bool:
    """Return whether a directory of this name would be outside of the repository's own."""
    return "/" in name or name in ("", ".", "..")


def select_versions(config: ModelConfig, versions: list[int]) -> tuple[int, ...]:
    """Return the versions, of the existing ones, that the policy selects (rule 5.11.6), lowest first."""
    policy = config.version_policy
    if policy.HasField("specific"):
        return tuple(version for version in versions if version in policy.specific.versions)
    if policy.HasField("latest"):
        newest = policy.latest.num_versions
        return tuple(versions[-newest:]) if newest else ()
    return tuple(versions)  # `all`, and a policy that names none of the three


def _write_files(directory: Path, files: dict[str, bytes]) -> None:
    """Write file overrides as a separate model directory; keys without the prefix are ignored, as Triton does
    (rules 1.15.4, 5.11.3). Raises ConfigError.
    """
    root = os.path.realpath(directory)
    for key, content in files.items():
        if not key.startswith("file:"):
            continue
        # all paths start at the directory, `/1/model.py` too; it has no links, so names decide
        name = key.removeprefix("file:").lstrip("/")
        path = os.path.normpath(os.path.join(root, name))
        if not Path(path).is_relative_to(root):
            raise ConfigError(
                f"Invalid file parameter '{key}' with normalized path '{path}' must stay within model directory."
            )
        path += "/" * name.endswith("/")  # a name that is a directory cannot be written
        try:
            if path.count("/") > _MOST_LEVELS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(f"failed to open binary file for write {path}: {cause}") from None


def _run_agents(config: ModelConfig, directory: Path) -> None:
    """Run the repository agents of a model on its directory (rule 5.1.8). Raises ConfigError, with Triton's texts."""
    agents = config.model_repository_agents.agents
    for agent in agents:
        if agent.name != "checksum":
            library = f"libtritonrepoagent_{agent.name}.so"
            raise ConfigError(f"unable to find '{library}' for repo agent '{agent.name}', searched: {_AGENTS}")
    for agent in agents:
        for key, expected in agent.parameters.items():
            _compare_checksum(directory, key, expected)


def _compare_checksum(directory: Path, key: str, expected: str) -> None:
    algorithm, colon, path = key.partition(":")
    if not colon:
        raise ConfigError(f"failed to parse key: {key}")
    if algorithm.lower() != "md5":
        raise ConfigError(f"Unsupported checksum algorithm: {algorithm}")
    try:
        with open_file(directory / path) as file:
            found = hashlib.md5(file.read(), usedforsecurity=False).hexdigest()
    except OSError as error:
        raise ConfigError(f"failed to open text file for read {path}: {error.strerror}") from None
    if found != expected:
        raise ConfigError(f"Mismatched MD5 hash for file {path}, expect: {expected}, got: {found}")


def poll_failure(name: str, reason: str) -> ModelLoadError:
    """Return the error of an unreadable model: clients get the short text, `reason` is only logged (rule 2.5.3)."""
    return ModelLoadError(
        f"failed to load '{name}', failed to poll from model repository", code=Code.INTERNAL, reason=reason
    )
