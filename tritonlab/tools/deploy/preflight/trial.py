"""Trials of models in separate processes of pre-flight: the files that they read, and the files that they need.

The models are loaded once more, with an audit hook in their stubs, and are sent the given requests. Then the same
happens in a mount namespace where the author's folders are empty, except for the files that the hook has reported. If a
model differs there, it needs a file that code other than Python opens: torch.jit, onnxruntime, tokenizers, a program
that it starts. A third run watches which files are opened (inotify). Each of them is hidden in a separate run, and is
reported if that makes the difference.
"""

from __future__ import annotations

import os
import pickle
import site
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....core.config.model_config import ModelConfig, parse_pbtxt, to_dict
from ....core.config.model_config_rules import is_ensemble
from ....core.inference.infer_request import InferenceRequest
from ....core.scratch_directory import ScratchDirectory
from ....exchanges.exchange import Exchange
from ....ipc.link.stub_link import ReadsRecorded
from ....ipc.processes.execution_env import PARAMETER
from ....server.api.model import Model
from ....server.api.needed_models import needed_models
from ....server.models.backends import DEFAULT_DIRECTORY, runs_shipped
from ....stub._pb_stub.process.reads_record import HELD, LISTED, LOOKED, PASSED, is_everywhere
from ..child_command import CommandFailed, run_command
from ..loaded_modules import third_party_modules
from ..verify.hiding import common_entries, find_hiding, folders_of_the_machine, is_in
from .finding import Prediction

#: The most seconds of a run for each model.
_SECONDS = 300.0
#: The most files that are hidden, each in a separate run.
_MOST_COVERED = 8
#: Options of the model's server that affect its loading.
_OPTIONS = (
    *("backend_config", "backend_directory", "backends"),
    *("strict_model_config", "model_config_name", "simulated_gpus"),
)


@dataclass(frozen=True)
class LoadedAgain:
    """A model in the form that the process loads."""

    name: str
    directory: Path
    config: dict[str, Any]
    requests: tuple[InferenceRequest, ...] = ()


@dataclass(frozen=True)
class Job:
    """The job of a process. `others`: models that the ones in `models` need. `hidden`: files, and directories that are
    empty there; `shown`: the visible parts of them; `passed`: directories that are there all the same, but empty.
    `watched`: the directories in which opened files are recorded."""

    models: tuple[LoadedAgain, ...]
    others: tuple[LoadedAgain, ...]
    options: Mapping[str, Any]
    cwd: str
    scratch: Path
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """The observations of a process about one model. `problem`: why it was not loaded; `answers`: for each case its
    error, then a digest of its responses; `opened`: the files that any process opened meanwhile in watched
    directories; `is_whole`: whether `reads` has all reads, because its processes did not end meanwhile."""

    problem: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    reads: tuple[ReadsRecorded, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    opened: frozenset[str] = frozenset()
    is_whole: bool = False

    @property
    def result(self) -> tuple[bool, tuple[tuple[bool, str], ...]]:
        """The part that must be the same in another run; the text of an error may differ."""
        return bool(self.problem), tuple((bool(error), digest) for error, digest in self.answers)

    def outcome(self, hidden: Seen) -> Prediction:
        """Return the effect of hiding something, from a run with it hidden."""
        if hidden.problem:
            return Prediction.LOAD
        both = zip(self.answers, hidden.answers, strict=True)
        failed = any(error and not before for (before, _), (error, _) in both)
        return Prediction.FAILS if failed else Prediction.DIFFERS


@dataclass(frozen=True)
class ModelTrial:
    """The result of a model's trial. `sent`: the number of requests; `without`: the effect of all files of `reads`
    missing, if that was tried; `needed`: the files that code other than Python opens, with the effect of each missing
    one; `notes`: open questions."""

    reads: tuple[ReadsRecorded, ...]
    modules: Mapping[str, str]
    sent: int = 0
    without: Prediction | None = None
    needed: Mapping[str, Prediction] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def try_models(models: Sequence[Model], cases: Iterable[Exchange]) -> dict[str, ModelTrial]:
    """Return the result of each model's trial; `cases` are sent to the models that they name. Models that code of this
    package answers for are left out."""
    asked = list(cases)
    again = {model.name: _plan_load(model, asked) for model in models if not runs_shipped(_config_of(model))}
    if not again:
        return {}
    others = {
        other.name: _plan_load(other, ())
        for model in models
        for other in needed_models(model).loaded
        if other.name not in again
    }
    options = {name: getattr(models[0].server.core.options, name) for name in _OPTIONS}
    with ScratchDirectory("preflight-") as scratch:
        job = Job(tuple(again.values()), tuple(others.values()), options, cwd=_working_directory(), scratch=scratch)
        try:
            return {each.name: each.trial() for each in _find_suspects(job)}
        except CommandFailed as error:
            return {name: _make_untried(f"{error}") for name in again}


def _make_untried(why: str) -> ModelTrial:
    return ModelTrial((), {}, notes=(f"it could not be loaded once more to see what its requests read: {why.strip()}",))


class _Suspect:
    """A model, the observations of the visible run, and the later conclusions."""

    def __init__(self, model: LoadedAgain, seen: Seen) -> None:
        self.name, self.model, self.seen = model.name, model, seen
        self.candidates: list[str] = []
        self.needed: dict[str, Prediction] = {}
        self.without: Prediction | None = None
        self.notes: list[str] = []

    @property
    def known(self) -> set[str]:
        """The paths that Python code was observed to read."""
        return {file.path for reads in self.seen.reads for file in reads.files if file.how not in (HELD, PASSED)}

    def read(self, *ways: str) -> set[str]:
        """Return the paths that it was observed to use in these ways."""
        return {file.path for reads in self.seen.reads for file in reads.files if file.how in ways}

    def forget(self, paths: set[str]) -> None:
        """Remove files from its reads."""
        reads = [each._replace(files=[f for f in each.files if f.path not in paths]) for each in self.seen.reads]
        self.seen = replace(self.seen, reads=tuple(reads))

    def trial(self) -> ModelTrial:
        if self.seen.problem:
            return _make_untried(self.seen.problem)
        if not self.seen.is_whole:
            self.notes.append("its process has ended at a request, so what its requests read is not known")
        return ModelTrial(
            self.seen.reads,
            self.seen.modules,
            sent=len(self.model.requests),
            without=self.without,
            needed=self.needed,
            notes=tuple(self.notes),
        )


def _find_suspects(job: Job) -> list[_Suspect]:
    seen = _run(job)
    found = [_Suspect(model, seen[model.name]) for model in job.models]
    judged = [each for each in found if not each.seen.problem]
    unshare = find_hiding({}).unshare
    if not unshare:
        for each in judged:
            each.needed.update(dict.fromkeys(each.read(HELD), Prediction.FAILS))
            each.notes.append(
                "there is no mount namespace here, so of the files that code other than Python opens (torch.jit, "
                "onnxruntime, tokenizers) only those are known that it keeps open"
            )
        return found
    job = replace(job, models=tuple(each.model for each in judged))
    folders = _hidden_folders(job.cwd)
    named = {path for each in judged for path in each.known}
    passed = tuple(sorted({path for each in judged for path in each.read(PASSED)}))
    hidden_job = replace(job, hidden=folders, shown=(*_find_visible(job, judged), *named), passed=passed)
    try:
        hidden = _run(hidden_job, unshare)
        _weigh([each for each in judged if each.known and each.model.requests], named, hidden_job, unshare)
        _explain([each for each in judged if hidden[each.name].result != each.seen.result], hidden, hidden_job, unshare)
    except CommandFailed as error:
        for each in judged:
            each.notes.append(f"where this machine's folders are hidden it could not be tried: {error}".strip())
    return found


def _weigh(readers: list[_Suspect], named: set[str], job: Job, unshare: Sequence[str]) -> None:
    """Find the effect of hiding all files that models were observed to read. Files that they look for but do not need
    are forgotten."""
    shown = tuple(path for path in job.shown if path not in named)
    elsewhere = tuple(path for path in sorted(named) if os.path.isfile(path) and not is_in(path, *job.hidden))
    differing = _differing(readers, job, unshare, hidden=(*job.hidden, *elsewhere), shown=shown)
    for each in readers:
        each.without = differing.get(each, Prediction.ATTENTION)
    lookers = [each for each in readers if each.read(LOOKED, LISTED)]
    looked_for = {path for each in lookers for path in each.read(LOOKED, LISTED)}
    still = _differing(lookers, job, unshare, shown=tuple(path for path in job.shown if path not in looked_for))
    for each in lookers:
        if each not in still:
            each.forget(each.read(LOOKED, LISTED))


def _explain(suspects: list[_Suspect], hidden: Mapping[str, Seen], job: Job, unshare: Sequence[str]) -> None:
    """Find the files that make the difference. A model whose answers differ between two visible runs is skipped."""
    if not suspects:
        return
    again = _run(replace(_only(job, suspects), hidden=(), watched=(job.cwd, *job.hidden)))
    for each in list(suspects):
        if again[each.name].result != each.seen.result:
            each.notes.append(
                "its answers differ from one run to the next, so the files that code other than Python opens are "
                "not known"
            )
            suspects.remove(each)
        written = {path for reads in each.seen.reads for path in reads.written}
        opened = (again[each.name].opened | each.read(HELD)) - each.known - written
        errors = hidden[each.name].problem + "".join(error for error, _ in hidden[each.name].answers)
        # other processes also open files meanwhile: files in an error or the working directory come first
        likely = sorted(opened, key=lambda p: (os.path.basename(p) not in errors, not p.startswith(job.cwd + "/"), p))
        each.candidates = [path for path in likely if not is_everywhere(path)][:_MOST_COVERED]
    waiting = suspects
    for number in range(_MOST_COVERED):
        waiting = [each for each in waiting if number < len(each.candidates)]
        if not waiting:
            break
        covered = tuple(sorted({each.candidates[number] for each in waiting}))
        named = _differing(waiting, job, unshare, hidden=covered, shown=())
        for each, outcome in named.items():
            each.needed[each.candidates[number]] = outcome
        shown = tuple(path for each in named for path in each.needed)
        unexplained = _differing(list(named), job, unshare, shown=(*job.shown, *shown))
        waiting = [each for each in waiting if each not in named or each in unexplained]
    unnamed = [each for each in suspects if not each.needed]
    _name_folders(unnamed, [folder for folder in job.hidden if os.listdir(folder)], job, unshare)


def _name_folders(suspects: list[_Suspect], folders: list[str], job: Job, unshare: Sequence[str]) -> None:
    """Find the directories that make the difference, by bisection. `folders`: directories that make it together."""
    middle = len(folders) // 2
    for half in (folders[:middle], folders[middle:]) if suspects and folders else ():
        found = _differing(suspects, job, unshare, hidden=tuple(half)) if half else {}
        if len(half) > 1:
            _name_folders(list(found), half, job, unshare)
        else:
            for each, outcome in found.items():
                each.needed[f"{half[0]}/"] = outcome


def _differing(some: list[_Suspect], job: Job, unshare: Sequence[str], **other: Any) -> dict[_Suspect, Prediction]:
    """Return the models that differ in a run of the job with other fields, each with the effect."""
    found = _run(replace(_only(job, some), **other), unshare)
    return {each: each.seen.outcome(found[each.name]) for each in some if found[each.name].result != each.seen.result}


def _only(job: Job, suspects: Iterable[_Suspect]) -> Job:
    return replace(job, models=tuple(each.model for each in suspects))


def _run(job: Job, prefix: Sequence[str] = ()) -> dict[str, Seen]:
    """Do the job in a separate process. Raises CommandFailed."""
    if not job.models:
        return {}
    file = job.scratch / "job"
    file.write_bytes(pickle.dumps(job))
    command = [*prefix, sys.executable, "-m", f"{__package__}.trial_process", str(file)]
    run_command(command, cancel=threading.Event(), timeout=_SECONDS + 10 * len(job.models))
    found: dict[str, Seen] = pickle.loads((job.scratch / "seen").read_bytes())
    return found


def _plan_load(model: Model, cases: Sequence[Exchange]) -> LoadedAgain:
    """Return how to load a model once more: with one instance, and without a cache, which would keep answers."""
    config = _config_of(model)
    found = dict(to_dict(config))
    found.pop("response_cache", None)
    if not is_ensemble(config):
        groups = found.get("instance_group") or [{"kind": "KIND_CPU"}]
        found["instance_group"] = [{**groups[0], "count": 1, "name": ""}]
    own = tuple(case.again() for case in cases if case.model == model.name)
    return LoadedAgain(model.name, Path(model.directory).absolute(), found, own)


def _config_of(model: Model) -> ModelConfig:
    return parse_pbtxt(model.config_pbtxt(), "the served config")


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/"


def _hidden_folders(cwd: str) -> tuple[str, ...]:
    """Return the directories with the author's files, without nested ones."""
    tops = [str(path) for path in folders_of_the_machine()]
    if "/usr/local" in (sys.prefix, sys.base_prefix):
        tops.remove("/usr/local")
    more = ["/tmp", os.path.expanduser("~"), cwd]
    found = sorted({os.path.realpath(path) for path in (*tops, *more) if os.path.isdir(path)} - {"/", "/usr"})
    return tuple(path for number, path in enumerate(found) if not is_in(path, *found[:number]))


def _find_visible(job: Job, suspects: Iterable[_Suspect]) -> Iterator[str]:
    """Yield the visible parts of hidden directories: Python, its packages, the models, and the author's modules."""
    yield str(job.scratch)
    yield from common_entries()
    yield str(Path(__file__).parents[3])
    yield from (path for path in (sys.prefix, sys.base_prefix) if path not in ("/usr", "/usr/local"))
    yield from (path for path in sys.path if "site-packages" in path or "dist-packages" in path)
    yield site.getusersitepackages()
    for model in (*job.models, *job.others):
        yield str(model.directory)
        yield str(model.config.get("parameters", {}).get(PARAMETER, {}).get("string_value", ""))
        backend = str(model.config.get("backend", ""))
        yield os.path.join(os.path.abspath(job.options["backend_directory"] or DEFAULT_DIRECTORY), backend)
    for each in suspects:
        for module in third_party_modules(each.seen.modules, [each.model.directory]):
            if not module.is_packaged:
                path = Path(module.file)
                yield str(path.parent if path.name == "__init__.py" else path)
