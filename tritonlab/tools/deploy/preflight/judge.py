"""Pre-flight: the problems of a model at its target, found before it is deployed. The model is loaded on a server, or
lies in a directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ....core.config.model_config import ModelConfig, parse_pbtxt, read_config
from ....core.source.undefined_names import undefined_names
from ....core.version import DEFAULT_TARGET
from ....exchanges.exchange import Exchange
from ....exchanges.golden import GoldenSet
from ....exchanges.last_cases import last_cases
from ....ipc.link.stub_link import ReadsRecorded
from ....ipc.processes.execution_env import MODEL_DIRECTORY, PARAMETER
from ....record.live_state import memory_use, shm_size
from ....repository.layout import CONFIG_FILE
from ....repository.model_tree import ModelTree, read_tree
from ....server.api.model import Model
from ....server.api.needed_models import needed_models
from ....server.models.backends import runs_shipped
from ....tool_table import preflight_rows
from ..left_out import NotDeployable
from ..own_backends import find_own_backend
from ..releases import Target, find_target
from ..secrets import why_secret
from .engines import notes_of, on_the_engine
from .features import missing_features
from .finding import Finding, Prediction, Preflight, in_order
from .pickles import pickles_of_the_notebook
from .places import (
    mode_bits,
    modules_of_the_stub,
    name_of_the_model,
    secrets_and_clutter,
    shared_memory,
    stray_directories,
)
from .reads import files_and_variables, modules_beside_the_notebook, third_party_imports
from .relocatable import relocatable
from .subject import Subject
from .versions import numpy_of_the_target, python_of_the_target

if TYPE_CHECKING:
    from .trial import ModelTrial


def _names_of_other_cells(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each file of a model that uses names it does not define, such as names from other cells."""
    for source in subject.sources:
        names = undefined_names(source)
        if not names:
            continue
        (first, line), *_ = names.items()
        listed = ", ".join(names)
        plural = len(names) > 1
        yield Finding(
            row="P1",
            sentence=f"{listed} {'are' if plural else 'is'} used and not defined in the model's own files, so a "
            f"request that comes to {first} fails with NameError",
            remedy=f"define {'them' if plural else 'it'} in the model's cell; --capture writes what other cells define "
            "in front of the model",
            source_line=f"{source.path}:{line}",
            outcome=Prediction.FAILS,
        )


#: Each row, and its function.
ROWS: dict[str, Callable[[Subject, Target], Iterator[Finding]]] = {
    "P1": lambda subject, target: _names_of_other_cells(subject),
    "P2": third_party_imports,
    "P3": lambda subject, target: files_and_variables(subject),
    "P4": modules_beside_the_notebook,
    "P5": lambda subject, target: numpy_of_the_target(subject, target.release),
    "P6": lambda subject, target: python_of_the_target(subject, target.release),
    "P7": lambda subject, target: missing_features(subject, target.release),
    "P8": shared_memory,
    "P9": lambda subject, target: relocatable(subject, target.release),
    "P10": lambda subject, target: secrets_and_clutter(subject),
    "P11": lambda subject, target: mode_bits(subject),
    "P12": on_the_engine,
    "P13": lambda subject, target: name_of_the_model(subject),
    "P14": lambda subject, target: pickles_of_the_notebook(subject),
    "P15": lambda subject, target: stray_directories(subject),
    "P16": lambda subject, target: modules_of_the_stub(subject),
}
#: The rows that judge by a release of Triton; an engine that serves with tritonlab has none.
_OF_RELEASES = ("P5", "P6", "P7", "P9", "P13", "P15", "P16")


def judge(subject: Subject, target: str | Target = DEFAULT_TARGET) -> Preflight:
    """Return the pre-flight findings about a model for a target: a release as 2.49, its container as 24.08, or kserve,
    dynamo or ray.

    Raises UnknownTarget.
    """
    place = find_target(target) if isinstance(target, str) else target
    rows = [row for name, row in ROWS.items() if place.is_triton or name not in _OF_RELEASES]
    found = in_order(finding for row in (*rows, *preflight_rows()) for finding in row(subject, place))
    return Preflight(subject.name, str(place), found, tuple(_notes(subject, place)))


def _notes(subject: Subject, target: Target) -> Iterator[str]:
    yield from notes_of(target.engine)
    if target.is_triton and not target.release.is_started:
        yield f"Triton {target.release} is judged by the release table and rules only: it was not started here"
    if subject.sources and not subject.reads:
        yield "it is not loaded, so what it imports, opens and reads of the environment is not known"
    unparsed = [source.path for source in subject.sources if source.tree is None]
    if unparsed:
        yield f"{', '.join(unparsed)} could not be read as Python and was not looked at"


def preflight(
    model: Model, target: str = DEFAULT_TARGET, *, cases: Sequence[Exchange] = (), trial: ModelTrial | None = None
) -> Preflight:
    """Return the problems of a loaded model at the target: a release of Triton as 2.49, its container as 24.08, or
    kserve, dynamo or ray.

    The model is loaded once more, in a separate process, which is sent the requests of `cases` and records what it
    reads; `trial` is the result of an earlier trial, if there was one. Raises UnknownTarget.
    """
    place = find_target(target)
    subject = subject_of(model)
    notes: tuple[str, ...] = ()
    if subject.sources:
        from .trial import try_models

        trial = trial or try_models([model], cases).get(model.name)
    if trial is not None and subject.sources:
        subject = with_trial(subject, trial)
        notes = trial.notes
        if trial.reads and not trial.sent:
            notes = (*notes, "no request was sent, so what `execute` reads is not known: %triton golden add keeps one")
    found = replace(judge(subject, place), is_complete=not notes)
    needed = ", ".join(other.name for other in needed_models(model).loaded)
    if needed:
        notes = (*notes, f"it needs {needed}, which pre-flight judges by name: %triton preflight NAME")
    return replace(found, notes=(*found.notes, *notes))


def preflight_of(model: Model, target: str) -> Preflight:
    """Run `Model.preflight`."""
    return preflight(model, target, cases=[*last_cases([model]), *GoldenSet().cases(model.name)])


def with_trial(subject: Subject, trial: ModelTrial) -> Subject:
    """Return the model with the results of its trial; unchanged if it did not load once more."""
    if not trial.reads:
        return subject
    # files made by the first load are not missing, though the second load found them
    made = {path for reads in subject.reads for path in reads.written}
    made -= {file.path for reads in subject.reads for file in reads.files}
    reads = (each._replace(files=[file for file in each.files if file.path not in made]) for each in trial.reads)
    modules = {**subject.modules, **trial.modules}
    outside = _outside(reads, subject.backend)
    return replace(subject, reads=outside, modules=modules, needed=trial.needed, without=trial.without)


def subject_of(model: Model, include: Sequence[str] = ()) -> Subject:
    """Return the subject of pre-flight for a loaded model; its reads are the ones of its load."""
    config = parse_pbtxt(model.config_pbtxt(), "the served config")
    directory = Path(model.directory)
    is_its_own = not runs_shipped(config)  # otherwise this package's code reads and imports
    found = model.reads() if is_its_own else ()
    backend = None
    with suppress(NotDeployable):  # the file is gone; an export refuses that
        own = find_own_backend(model.name, config, model.server.core.options.backend_directory, include)
        backend = own.tree if own is not None else None
    shm = shm_size(memory_use(model.versions(), model.server_gpus))
    versions = tuple(model.metadata()["versions"])
    return Subject(
        model.name,
        tree=_tree(directory, config, include, model.server.core.repository.inside_of(model.name, directory)),
        config=config,
        reads=_outside(found, backend),
        modules=model.modules() if is_its_own else {},
        shm_bytes=shm,
        versions=versions,
        repositories=(directory.parent,),
        backend=backend,
    )


def _outside(reads: Iterable[ReadsRecorded], backend: ModelTree | None) -> tuple[ReadsRecorded, ...]:
    """Return the reads outside of the Python-based backend, whose files are deployed with the model."""
    if backend is None:
        return tuple(reads)
    own = f"{os.path.realpath(backend.root)}{os.sep}"
    return tuple(each._replace(files=[file for file in each.files if not file.path.startswith(own)]) for each in reads)


def subject_in(directory: Path, include: Sequence[str] = ()) -> Subject:
    """Return the visible facts about a model that is not loaded. Raises ConfigError."""
    config = read_config(directory / CONFIG_FILE)
    versions = tuple(sorted(path.name for path in directory.iterdir() if path.is_dir() and path.name.isdecimal()))
    repositories = (directory.parent,)
    tree = _tree(directory, config, include, repositories)
    return Subject(directory.name, tree, config, versions=versions, repositories=repositories)


def _tree(directory: Path, config: ModelConfig, include: Sequence[str], inside: Sequence[Path]) -> ModelTree:
    value = config.parameters[PARAMETER].string_value if PARAMETER in config.parameters else ""
    needed = [value.removeprefix(f"{MODEL_DIRECTORY}/")] if value.startswith(MODEL_DIRECTORY) else []

    def find_secret(path: str, file: Path) -> str:
        is_in_environment = any(path.startswith(f"{each}/") for each in needed)  # libraries include certificates
        return "" if is_in_environment else why_secret(path, file)

    return read_tree(directory, include=include, needed=needed, inside=inside, why_secret=find_secret)
