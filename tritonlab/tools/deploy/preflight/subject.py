"""The subject of pre-flight: a model's files, its config, and the reads of its code during the load."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ....core.config.model_config import ModelConfig, messages
from ....core.source.source_file import UNPARSABLE, SourceFile
from ....ipc.link.stub_link import ReadsRecorded
from ....ipc.processes.execution_env import MODEL_DIRECTORY, PARAMETER
from ....ipc.processes.interpreter import STUB
from ....ipc.processes.own_stub import NAME, python_of_compiled
from ....repository.model_tree import ModelTree
from ..loaded_modules import LoadedModule, third_party_modules
from ..releases import Target
from .finding import Prediction


class ExportedEnvironment(NamedTuple):
    """An environment that an export puts into the model's directory. `name`: of the directory or archive; `packages`:
    the versions of its distributions by their names; `has_stub`: whether a compiled stub for its Python lies next to
    it."""

    name: str
    python: str
    packages: Mapping[str, str]
    has_stub: bool


@dataclass(frozen=True)
class Subject:
    """One model.

    `reads`: one for each instance that answered; none for an ensemble, nor for a model that is not loaded. `modules`:
    the file of each module that its instances have imported, by name. `shm_bytes`: the shared memory that it has used
    so far, 0 if unknown. `exported`: the environment that is exported with it, instead of one in its config.
    `repositories`: the directories with everything that will lie next to it in the deployment. `needed`: the files that
    code other than Python reads, with the effect of each missing one. `without`: the effect of all files of `reads`
    missing; None if unknown. `pins`: the versions in the lock that is exported with it, by the names of their
    distributions. `backend`: the tree of its Python-based backend.
    """

    name: str
    tree: ModelTree
    config: ModelConfig
    reads: tuple[ReadsRecorded, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    shm_bytes: int = 0
    versions: tuple[str, ...] = field(default=("1",))
    exported: ExportedEnvironment | None = None
    repositories: tuple[Path, ...] = ()
    needed: Mapping[str, Prediction] = field(default_factory=dict)
    without: Prediction | None = None
    pins: Mapping[str, str] = field(default_factory=dict)
    backend: ModelTree | None = None

    @property
    def directory(self) -> Path:
        return self.tree.root

    @cached_property
    def sources(self) -> tuple[SourceFile, ...]:
        """The Python files that run: the model's, without its environment and versions that are not served; with a
        Python-based backend, the backend's instead."""
        return tuple(self._sources())

    def _sources(self) -> Iterator[SourceFile]:
        environment = self.environment
        paths = [self.backend.root / file for file in self.backend.files] if self.backend is not None else []
        for file in self.tree.files if self.backend is None else ():
            folder = file.split("/")[0]
            if folder.isdecimal() and folder not in self.versions:
                continue
            if environment and file.startswith(environment + "/"):
                continue
            paths.append(self.directory / file)
        for path in paths:
            if path.suffix != ".py":
                continue
            text = path.read_bytes().decode("utf-8", "replace")
            try:
                yield SourceFile(str(path), text, ast.parse(text))
            except UNPARSABLE:
                yield SourceFile(str(path), text, None)

    @property
    def environment(self) -> str:
        """The environment that the config names, relative to the model directory; empty if there is none."""
        value = self.environment_value
        return os.path.normpath(value.removeprefix(f"{MODEL_DIRECTORY}/")) if value.startswith(MODEL_DIRECTORY) else ""

    @property
    def has_environment_directory(self) -> bool:
        """Return whether the environment in the model's directory is a directory, not an archive."""
        if self.exported is not None:
            return not self.exported.name.endswith(".gz")
        return bool(self.environment) and (self.directory / self.environment).is_dir()

    @property
    def environment_value(self) -> str:
        """The value of EXECUTION_ENV_PATH; empty if there is none."""
        if self.exported is not None:
            return f"{MODEL_DIRECTORY}/{self.exported.name}"
        return str(self.config.parameters[PARAMETER].string_value) if PARAMETER in self.config.parameters else ""

    @property
    def stub_python(self) -> str:
        """The Python that the model's own compiled stub was built for; empty if it has none."""
        if self.exported is not None and self.exported.has_stub:
            return self.exported.python
        return python_of_compiled(self.directory / NAME)

    @property
    def python(self) -> str:
        """The Python that ran the model here, or that is exported with it, such as `3.11.2`; empty if unknown."""
        if self.exported is not None:
            return self.exported.python
        return self.reads[0].python if self.reads else ""

    @property
    def is_decoupled(self) -> bool:
        return bool(self.config.model_transaction_policy.decoupled)

    @property
    def on_gpu(self) -> bool:
        """Return whether an instance group requests a GPU."""
        return any(group.kind == messages.ModelInstanceGroup.KIND_GPU for group in self.config.instance_group)

    @cached_property
    def third_party(self) -> tuple[LoadedModule, ...]:
        """The modules that its instances have imported and that belong neither to Python, nor to its directory, nor to
        its backend's."""
        backend = [self.backend.root] if self.backend is not None else []
        return tuple(third_party_modules(self.modules, [self.directory, STUB.parent, *backend]))

    @property
    def own_modules(self) -> set[str]:
        """The top-level modules that lie in the model's directory."""
        found = set()
        for file in self.tree.files:
            parts = file.split("/")
            parts = parts[1:] if parts[0] in self.versions else parts
            found.add(parts[0].removesuffix(".py"))
        files = self.backend.files if self.backend is not None else ()
        return found | {file.partition("/")[0].removesuffix(".py") for file in files}


def line_of(source: SourceFile, node: ast.AST) -> str:
    """Return `<file>:<line>` of a part of a source."""
    return f"{source.path}:{getattr(node, 'lineno', 0)}"


def last_name(node: ast.AST) -> str:
    """Return the name of a variable or attribute; empty for other expressions."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def has_response_parameters(node: ast.AST) -> bool:
    """Return whether a part of a source makes an InferenceResponse with parameters."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "InferenceResponse":
        return False
    return len(node.args) > 2 or any(keyword.arg == "parameters" for keyword in node.keywords)


def python_there(subject: Subject, target: Target) -> tuple[int, ...]:
    """Return the version of Python that runs the model at the target; empty if unknown."""
    there = target.release.python.value if target.is_triton else ""
    return version_of(subject.stub_python or there or "")


def version_of(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, for comparison."""
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


def version_text(numbers: Iterable[int]) -> str:
    """Return the text of a version, such as `3.11`."""
    return ".".join(map(str, numbers))
