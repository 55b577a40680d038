"""`verify`: an export judged by real Triton servers, on a copy, with the author's machine hidden."""

from __future__ import annotations

import itertools
import json
import platform
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from ....core.config.model_config import ConfigError
from ....core.scratch_directory import ScratchDirectory
from ....core.version import DEFAULT_TARGET, VERSION
from ....core.whole_file import write_file
from ....exchanges.comparison import compare
from ....exchanges.exchange import Exchange
from ....exchanges.exchange_file import read_exchange
from ....ipc.processes.own_stub import NAME as STUB
from ....repository.layout import LEFT_BEHIND, model_names
from ....repository.model_tree import leads_out
from ....server.api.needed_models import named_in
from ..child_command import CommandFailed, Say, raise_if_cancelled
from ..export_record import features_of, record_of, record_text
from ..exported_files import lock_of
from ..own_backends import backends_in, backends_of
from ..preflight import judge as preflight
from ..preflight.judge import subject_in
from ..releases import find, find_target
from .differences import NOT_SENT
from .hiding import NOT_HIDDEN, Hiding, author_paths
from .judge_server import JudgeServer
from .judgement import AGAIN, NO_REQUEST, judge, kept_answer
from .judges import Judge, OwnServer, PathJudge, WheelJudge, find_docker_judge, judge_python
from .page import body_of, page_of, without_paths
from .release_verdict import ReleaseVerdict
from .replayed_requests import ALONE, ModelAnswers, RequestReplay
from .shipped_requests import ship_requests, shipped_requests
from .verdict import Verification
from .verdict_history import VerdictHistory
from .wheels import NoWheel, find_wheel, unpacked

#: The default release of a test.
ON_PATH = "path"


def verify(
    directory: str | PathLike[str],
    *,
    triton: str | Sequence[str] = DEFAULT_TARGET,
    requests: str | PathLike[str] | Sequence[Exchange] = "golden",
    hide: Sequence[str | PathLike[str]] = (),
    reads: Sequence[Path] = (),
    open_findings: Mapping[str, Sequence[str]] | None = None,
    python: str = "",
    load_seconds: float = 120.0,
    say: Say = lambda text: None,
    cancel: threading.Event | None = None,
) -> Verification:
    """Run `tritonlab.verify`."""
    root, cancel = _root_of(Path(directory).expanduser().resolve()), cancel or threading.Event()
    models = root / "models" if (root / "models").is_dir() else root
    names = _names(models)
    cases = list(_name_apart(_cases(requests, root)))
    given = dict.fromkeys((Path(path).expanduser().resolve() for path in hide), "what --hide names")
    hidden = author_paths({**given, **dict.fromkeys((models, backends_of(models)), "the export itself")}, reads)
    lock, wanted = _lock(root, models), releases(triton)
    history = VerdictHistory(root, models)
    found = history.open_findings if open_findings is None else open_findings
    work = _Work(names, cases, load_seconds, say, cancel, models=models, hide=hidden, open_findings=found)
    say(f"{len(names)} model{'s' * (len(names) != 1)}, {len(cases)} request{'s' * (len(cases) != 1)}: first here")
    ours, own_place = _ask_here(work)
    verdicts = []
    for release in dict.fromkeys(wanted):
        say(f"Triton {release}")
        try:
            verdict = work.verdict(_judge_for(release, python, lock, work), ours, own_place)
        except (LookupError, CommandFailed) as error:
            verdict = ReleaseVerdict(release, "none", problem=f"{error}".strip())
        verdicts.append(replace(verdict, still_open=tuple(history.still_open(verdict))))
    if not isinstance(requests, str | PathLike):
        ship_requests(root, cases)
    return work.write(root, verdicts, history)


def run(directory: Path, **options: Any) -> int:
    """Run `tritonlab verify` with `options` of `verify`, and print the verdict. Return 1 if it differs or the export
    could not be verified, 130 if it was interrupted."""
    try:
        found = verify(directory, say=lambda text: print(text, file=sys.stderr, flush=True), **options)
    except ValueError as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tritonlab: interrupted; nothing was left behind", file=sys.stderr)
        return 130
    print(found)
    return 0 if found.passed else 1


def _root_of(directory: Path) -> Path:
    """Return the directory that an export's record belongs to: the one with `models/`, or `models` itself if that was
    verified."""
    inside, above = directory / "models", directory.parent
    if inside.is_dir():
        return inside if record_of(inside).is_file() and not record_of(directory).is_file() else directory
    is_part = directory.name == "models" and record_of(above).is_file() and not record_of(directory).is_file()
    return above if is_part else directory


def _lock(root: Path, models: Path) -> str:
    locks = [lock_of(root, is_whole=False), *([lock_of(models, is_whole=True)] if models.name == "models" else [])]
    return next((path.read_text(encoding="utf-8") for path in locks if path.is_file()), "")


def releases(triton: str | Sequence[str]) -> list[str]:
    """Return the versions of the named releases, and of the releases of targets such as kserve. Raises UnknownTarget,
    and ValueError if none is named."""
    texts = ",".join([triton] if isinstance(triton, str) else triton).split(",")
    wanted = [text.strip() for text in texts if text.strip()]
    if not wanted:
        raise ValueError(f"no release of Triton is named: write {DEFAULT_TARGET}, or several as 2.51,2.41")
    return [each if each == ON_PATH else str(find_target(each).release.triton.value) for each in wanted]


def _names(models: Path) -> list[str]:
    names = [name for name in model_names(models) if not name.startswith(".")] if models.is_dir() else []
    if not names:
        raise NotADirectoryError(f"{models} is not a model repository: nothing in it has a config.pbtxt or a version")
    return names


def _ask_here(work: _Work) -> tuple[dict[str, ModelAnswers], str]:
    """Return our server's answers on the copy, and the copy's path; also the answers of a second start, if the first
    differ from the notebook's.
    """
    ours = work.run(OwnServer())
    place = work.place
    if any(_is_other(ours[case.model], case) for case in work.cases if case.model in ours):
        work.say("answers differ from the notebook's: our server is started again, to see whether they vary")
        for name, again in work.run(OwnServer()).items():
            ours[name].answers |= {(AGAIN, case): each for (way, case), each in again.answers.items() if way == ALONE}
    return ours, place


def _is_other(ours: ModelAnswers, case: Exchange) -> bool:
    """Return whether our server's answer to a request differs from the notebook's."""
    kept = kept_answer(case)
    answered = (one for one in ours.answers.get((ALONE, case.name), ()) if one.error is None)
    return kept is not None and kept.error is None and any(not compare(kept, one).same for one in answered)


def _cases(requests: str | PathLike[str] | Sequence[Exchange], root: Path) -> list[Exchange]:
    if not isinstance(requests, str | PathLike):
        return list(requests)
    if requests == "golden":
        return shipped_requests(root)
    place = Path(requests).expanduser()
    if not place.exists():
        raise ValueError(f"{place} does not exist; name a directory of golden cases, or one of its files")
    files = [place] if place.is_file() else sorted(place.glob("*/*.json"))
    return [read_exchange(path) for path in files]


def _name_apart(cases: Iterable[Exchange]) -> Iterator[Exchange]:
    """Yield the cases, with a number for each that has the name of an earlier one of its model: answers are kept by
    that name."""
    seen: set[tuple[str, str]] = set()
    for case in cases:
        names = itertools.chain([case.name], (f"{case.name}-{number}" for number in itertools.count(2)))
        name = next(each for each in names if (case.model, each) not in seen)
        seen.add((case.model, name))
        yield replace(case, name=name)


def _judge_for(release: str, python: str, lock: str, work: _Work) -> Judge:
    """Return a judge for that release. Raises NoWheel with the reasons if there is none."""
    if release == ON_PATH:
        program = shutil.which("tritonserver")
        if program is None:
            raise NoWheel("there is no tritonserver on PATH")
        return PathJudge(program, work.hide)
    try:
        wheel = find_wheel(release)
    except NoWheel as error:
        found = find_docker_judge(release, find(release).container.value)
        if isinstance(found, str):
            checks = static_findings(work.models, work.names, release)
            raise NoWheel(f"{error}; {found}. Statically checked: {'; '.join(checks) or 'nothing found'}") from None
        return found
    judged_by = judge_python(wheel, version=python, lock=lock, say=work.say, cancel=work.cancel)
    return WheelJudge(release, unpacked(wheel, work.say, work.cancel), judged_by, work.hide)


@dataclass
class _Work(RequestReplay):
    """One verification: each judge gets its own copy of the export, which is removed with everything left in it."""

    models: Path
    hide: Mapping[Path, str]
    open_findings: Mapping[str, Sequence[str]]
    place: str = ""
    restarts: int = 0
    hiding: Hiding = NOT_HIDDEN

    def _entries(self) -> Iterator[Path]:
        """Yield the models, and the files next to them that are deployed with them, but not the files of tools."""
        for entry in sorted(self.models.iterdir()):
            is_tool = entry.is_dir() and (entry.name.startswith(".") or entry.name in LEFT_BEHIND)
            if (entry.is_file() or entry.is_dir()) and not is_tool:
                yield entry

    def run(self, who: Judge) -> dict[str, ModelAnswers]:
        """Start a server on a copy, and send it all requests."""
        self.hiding = hiding = who.hiding()
        self.restarts = 0
        refused = self._foreign_stubs(who)
        if len(refused) == len(self.names):
            return {name: ModelAnswers(name, problem) for name, problem in refused.items()}
        while True:
            with ScratchDirectory("verify-") as scratch:
                scratch.chmod(0o755)
                copy = self._copy_models(scratch / "models")
                self.place = hiding.place("models", copy)
                start = partial(who.start, copy, self._copy_backends(scratch / "brought"), scratch, hiding)
                with JudgeServer(start, scratch, self.cancel) as server:
                    found = self.replay(server, refused)
                    if server.running:
                        return found
                    if self.restarts:
                        raise CommandFailed(f"the server crashed twice:\n{server.last_lines()}")
            # the real server sometimes crashes under batches (SIGSEGV in libtriton_python.so)
            self.restarts += 1
            self.say("  the server crashed; it is started again")

    def _copy_models(self, directory: Path) -> Path:
        """Copy the models, and the files next to them, to a directory that is made, and return it."""
        directory.mkdir()
        for entry in self._entries():
            raise_if_cancelled(self.cancel)
            if entry.name not in self.names and leads_out(entry, (self.models,)):
                (directory / entry.name).symlink_to(entry.resolve())
            elif entry.is_dir():
                shutil.copytree(entry, directory / entry.name, symlinks=True)
            else:
                shutil.copy2(entry, directory / entry.name)
        return directory

    def _copy_backends(self, directory: Path) -> list[Path]:
        """Return copies of the Python-based backends that are exported with the models."""
        found = backends_in(backends_of(self.models))
        for backend in found:
            shutil.copytree(backend, directory / backend.name, symlinks=True)
        return [directory / backend.name for backend in found]

    def verdict(self, who: Judge, ours: Mapping[str, ModelAnswers], own_place: str) -> ReleaseVerdict:
        """Return the judge's verdict."""
        begun = time.monotonic()
        self.say(f"  {who.name}")
        theirs = self.run(who)
        if isinstance(who, WheelJudge):
            _explain_backends(who, theirs, {name: _calls(self.models, ours[name]) for name in self.names})
        places = (own_place, self.place)
        through = {
            step["model_name"]: name
            for name in self.names
            for step in theirs[name].config.get("ensemble_scheduling", {}).get("step", ())
            if theirs[name].is_answered  # a request that fails may not have reached all steps
        }
        found = [
            judge(
                ours[name],
                theirs[name],
                self.cases,
                release=who.release,
                places=places,
                open_findings=self.open_findings.get(name, ()),
                through=through.get(name, ""),
            )
            for name in self.names
        ]
        seconds = time.monotonic() - begun
        verdict = ReleaseVerdict(
            who.release,
            who.name,
            hidden=str(self.hiding),
            hidden_words=self.hiding.words,
            is_hidden=self.hiding.kind == "namespace",
            models=tuple(found),
            seconds=seconds,
            restarts=self.restarts,
        )
        self.say(f"  {verdict.verdict} ({seconds:.0f} s)")
        return verdict

    def write(self, root: Path, verdicts: list[ReleaseVerdict], history: VerdictHistory) -> Verification:
        """Write the record and the page of the verdicts, and return them."""
        silent = dict.fromkeys(
            model.name
            for each in verdicts
            for model in each.models
            for found in model.findings
            if found.symbol == NOT_SENT
        )
        missing = [f"no request was sent to {', '.join(silent)}: {NO_REQUEST}"] if silent else []
        missing += [f"Triton {each.release}: {each.problem}" for each in verdicts if not each.verified]
        verification = Verification(
            directory=root,
            releases=tuple(verdicts),
            not_verified=tuple(missing),
            page=history.page,
            record=history.record,
            earlier=tuple(history.verdicts()),
        )
        document = {
            **history.export_facts,
            "tritonlab": VERSION,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "where": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}".strip(),
            "target": [release.release for release in verdicts],
            "features": {name: features_of(self.models / name) for name in self.names},
            "files": history.files,
            "preflight": {name: list(sentences) for name, sentences in self.open_findings.items() if sentences},
            "verified": [release.to_dict() for release in verdicts if release.verified],
            "not_verified": list(verification.not_verified),
            "earlier": list(verification.earlier),
        }
        html = page_of(body_of(verdicts, missing, verification.earlier), document)
        paths = [*map(str, self.hide)]
        # links keep their targets: the files of a verdict are known again by them
        record = {**json.loads(without_paths(record_text(document), paths)), "files": history.files}
        for path, text in ((history.record, record_text(record)), (history.page, without_paths(html, paths))):
            write_file(path, text.encode(errors="backslashreplace"))
        return verification

    def _foreign_stubs(self, who: Judge) -> dict[str, str]:
        """Return why models cannot be loaded whose stub is of another release: a server would wait for it in vain."""
        if not isinstance(who, WheelJudge):
            return {}
        foreign = [name for name in self.names if (self.models / name / STUB).is_file()]
        return {
            name: f"its {STUB} was not compiled for Triton {who.release}, and it was not tried: an environment is "
            f"exported for one release (--target {who.release})"
            for name in foreign
            if not who.files.compiled(self.models / name / STUB)
        }


def _explain_backends(who: WheelJudge, theirs: Mapping[str, ModelAnswers], calls: Mapping[str, set[str]]) -> None:
    """Remove models from the verdict that need a backend which the container has and the wheel lacks, and models that
    call one of these. `calls`: the names that are called by each, as its files have them."""
    for answers in theirs.values():
        if missing := _NO_BACKEND.search(answers.problem):
            answers.not_judged = (
                f"the wheel of Triton {who.release} has Python's backend only, and '{missing[1]}' is needed: its "
                "container has more, in docker or podman here, or as the tritonserver on PATH (--triton path)"
            )
    is_any = True
    while is_any:
        is_any = False
        for answers in (each for each in theirs.values() if not each.not_judged):
            if name := _absent(answers, theirs, calls):
                answers.not_judged = f"it calls '{name}', which could not be verified: {theirs[name].not_judged}"
                is_any = True


def _absent(answers: ModelAnswers, theirs: Mapping[str, ModelAnswers], calls: Mapping[str, set[str]]) -> str:
    """Return the name of a model that is called and could not be judged; empty if there is none."""
    texts = [one.error_text for sent in answers.answers.values() for one in sent if one.error is not None]
    for name, other in theirs.items():
        if other.not_judged and (
            name in calls.get(answers.name, ()) or any(f"'{name}' is not ready" in text for text in texts)
        ):
            return name
    return ""


def _calls(models: Path, ours: ModelAnswers) -> set[str]:
    """Return the names of an ensemble's steps, or those in the BLS calls of a model's files."""
    steps = ours.config.get("ensemble_scheduling", {}).get("step", ())
    files = (path for path in (models / ours.name).rglob("*.py") if not set(path.parts).intersection(LEFT_BEHIND))
    named = (name for path in files for name in named_in(path.read_bytes()))
    return {str(step["model_name"]) for step in steps} or set(named)


_NO_BACKEND = re.compile(r"unable to find backend library for backend '([^']*)'")


def static_findings(models: Path, names: Sequence[str], release: str) -> list[str]:
    """Return the problems of an export on a release, as far as its files show them."""
    found = []
    for name in names:
        try:
            seen = preflight.judge(subject_in(models / name), release)
        except ConfigError as error:
            found.append(f"{name}: {error}")
        else:
            found += [f"{name}: {finding.sentence}" for finding in seen.findings]
    return found
