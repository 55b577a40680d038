"""`verify`: an export judged by real Triton servers, on a copy, with the author's machine hidden."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ...clients.golden import GoldenCase, read_case
from ...core.config.model_config import ConfigError, read_config
from ...core.scratch_directory import ScratchDirectory
from ...core.version import VERSION
from ...ipc.processes.execution_env import PARAMETER
from ...ipc.processes.own_stub import NAME as STUB
from ...repository.layout import CONFIG_FILE, LEFT_BEHIND, model_names
from ..child_command import CommandFailed, Say, raise_if_cancelled
from ..environment.placed import LOCK
from ..preflight import judge as preflight
from ..preflight.judge import DEFAULT_TARGET, subject_in
from ..releases import find, find_target
from .hiding import author_paths
from .judge_server import JudgeServer
from .judgement import judge
from .judges import Judge, OwnServer, PathJudge, WheelJudge, find_docker_judge, judge_python
from .replayed_requests import ModelAnswers, replay
from .verdict import ReleaseVerdict, Verification, page_of
from .wheels import NoWheel, find_wheel, unpacked

#: The release that is tested unless another is named.
ON_PATH = "path"
#: The real server crashes now and then under batches (SIGSEGV in libtriton_python.so); then it is asked again.
_TRIES = 2


def verify(
    directory: str | PathLike[str],
    *,
    triton: str | Sequence[str] = DEFAULT_TARGET,
    requests: str | PathLike[str] | Sequence[GoldenCase] = "golden",
    hide: Sequence[str | PathLike[str]] = (),
    python: str = "",
    load_seconds: float = 120.0,
    say: Say = lambda text: None,
    cancel: threading.Event | None = None,
) -> Verification:
    """Start real Triton servers on a copy of an exported repository, send them requests, and compare their answers
    with those of our server.

    `triton`: releases (`2.51`, or the container's tag `24.10`), or `path` for the tritonserver on PATH. A release is
    fetched once, as a wheel; without a wheel its container is run, if the engine has it. `requests`: `golden` for
    `<directory>.golden`, a directory of golden cases, or cases. `hide`: more directories that the servers must not see.
    `python`: the version of the stub for models that bring no environment. `load_seconds`: how long a model may take to
    load; an environment in an archive is unpacked meanwhile. `say` gets a line for each step; setting
    `cancel` ends it, and then Cancelled is raised.

    The verdict goes to a page and to export.json, in `directory` if it has `models/`, else beside it. Raises
    NotADirectoryError, UnknownTarget, or ValueError for requests that cannot be read, or no release.
    """
    root, cancel = Path(directory).expanduser().resolve(), cancel or threading.Event()
    models = root / "models" if (root / "models").is_dir() else root
    names = [name for name in model_names(models) if not name.startswith(".")] if models.is_dir() else []
    if not names:
        raise NotADirectoryError(f"{root} is not a model repository: nothing in it has a config.pbtxt or a version")
    cases = _cases(requests, root)
    hidden = author_paths([*(Path(path).expanduser().resolve() for path in hide), models])
    locks = [root.with_name(f"{root.name}.{LOCK}"), *([models.with_name(LOCK)] if models.name == "models" else [])]
    lock = next((path.read_text(encoding="utf-8") for path in locks if path.is_file()), "")
    wanted = [_release(each) for text in ([triton] if isinstance(triton, str) else triton) for each in _words(text)]
    if not wanted:
        raise ValueError(f"no release of Triton is named: write {DEFAULT_TARGET}, or several as 2.51,2.41")
    work = _Work(models, names, cases, hide=tuple(hidden), load_seconds=load_seconds, say=say, cancel=cancel)
    say(f"{len(names)} model{'s' * (len(names) != 1)}, {len(cases)} request{'s' * (len(cases) != 1)}: first here")
    ours = work.run(OwnServer())
    own_place = work.place
    verdicts = []
    for release in dict.fromkeys(wanted):
        say(f"Triton {release}")
        try:
            verdicts.append(work.verdict(_judge_for(release, python, lock, work), ours, own_place))
        except (NoWheel, LookupError, CommandFailed) as error:
            verdicts.append(ReleaseVerdict(release, "none", problem=f"{error}".strip()))
    return _written(root, models, verdicts=verdicts, cases=cases, names=names)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _release(text: str) -> str:
    """Return the version of a release, or of the one that a target has, as kserve. Raises UnknownTarget."""
    return text if text == ON_PATH else str(find_target(text).release.triton.value)


def _cases(requests: str | PathLike[str] | Sequence[GoldenCase], root: Path) -> list[GoldenCase]:
    if not isinstance(requests, str | PathLike):
        return list(requests)
    place = root.with_name(f"{root.name}.golden") if requests == "golden" else Path(requests).expanduser()
    if requests != "golden" and not place.exists():
        raise ValueError(f"{place} does not exist; name a directory of golden cases, or one of its files")
    files = [place] if place.is_file() else sorted(place.glob("*/*.json"))
    return [read_case(path) for path in files]


def _judge_for(release: str, python: str, lock: str, work: _Work) -> Judge:
    """Return who can judge that release. Raises NoWheel, which says why nobody can."""
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


class _Work:
    """One verification: each judge gets a copy of the export of its own, which is removed with all it left."""

    def __init__(
        self,
        models: Path,
        names: list[str],
        cases: list[GoldenCase],
        hide: tuple[Path, ...],
        load_seconds: float,
        say: Say,
        cancel: threading.Event,
    ) -> None:
        self.models, self.names, self.cases, self.hide = models, names, cases, hide
        self.load_seconds = load_seconds
        self.say, self.cancel = say, cancel
        self.place, self.hidden, self.is_hidden, self.restarts = "", "", False, 0

    def _entries(self) -> Iterator[Path]:
        """Yield the models, and what lies beside them and is deployed with them, but not what only tools have there."""
        for entry in sorted(self.models.iterdir()):
            is_tool = entry.is_dir() and (entry.name.startswith(".") or entry.name in LEFT_BEHIND)
            if (entry.is_file() or entry.is_dir()) and not is_tool:
                yield entry

    def run(self, who: Judge) -> dict[str, ModelAnswers]:
        """Start a server on a copy, and send it everything."""
        hiding = who.hiding()
        self.hidden, self.is_hidden, self.restarts = str(hiding), hiding.kind == "namespace", 0
        for left in reversed(range(_TRIES)):
            scratch = ScratchDirectory("verify-")
            try:
                scratch.path.chmod(0o755)
                copy = scratch.path / "models"
                copy.mkdir()
                for entry in self._entries():
                    raise_if_cancelled(self.cancel)
                    if entry.is_dir():
                        shutil.copytree(entry, copy / entry.name, symlinks=True)
                    else:
                        shutil.copy2(entry, copy / entry.name)
                self.place = hiding.place("models", copy) if not isinstance(who, OwnServer) else str(copy)
                begin = lambda ports: who.start(copy, scratch.path, hiding, ports)  # noqa: B023, E731
                with JudgeServer(begin, scratch.path, self.cancel) as server:
                    found = replay(
                        server,
                        self.names,
                        self.cases,
                        load_seconds=self.load_seconds,
                        say=self.say,
                        cancel=self.cancel,
                    )
                    if server.running:
                        return found
                    if not left:
                        raise CommandFailed(f"the server crashed twice:\n{server.last_lines()}")
                self.restarts += 1
                self.say("  the server crashed; it is started again")
            finally:
                scratch.remove()
        raise AssertionError("unreachable")

    def verdict(self, who: Judge, ours: Mapping[str, ModelAnswers], own_place: str) -> ReleaseVerdict:
        """Return what the judge finds."""
        begun = time.monotonic()
        self.say(f"  {who.name}")
        theirs = self.run(who)
        if isinstance(who, WheelJudge):
            self._explain_stubs(who, theirs)
            _explain_backends(who, theirs)
        places = (own_place, self.place)
        found = [judge(ours[name], theirs[name], self.cases, release=who.release, places=places) for name in self.names]
        seconds = time.monotonic() - begun
        verdict = ReleaseVerdict(
            who.release,
            who.name,
            hidden=self.hidden,
            is_hidden=self.is_hidden,
            models=tuple(found),
            seconds=seconds,
            restarts=self.restarts,
        )
        self.say(f"  {verdict.verdict} ({seconds:.0f} s)")
        return verdict

    def _explain_stubs(self, who: WheelJudge, theirs: Mapping[str, ModelAnswers]) -> None:
        """Add to problems that a model brings a stub of another release, with which a server waits in vain."""
        for name, answers in theirs.items():
            stub = self.models / name / STUB
            if answers.problem and stub.is_file() and not who.files.compiled(stub):
                answers.problem += (
                    f"; its {STUB} was not compiled for Triton {who.release}: an environment is exported for one "
                    f"release (--target {who.release})"
                )


def _explain_backends(who: WheelJudge, theirs: Mapping[str, ModelAnswers]) -> None:
    """Take models out of the verdict that need a backend which the container has and the wheel has not."""
    for answers in theirs.values():
        if missing := _NO_BACKEND.search(answers.problem):
            answers.not_judged = (
                f"the wheel of Triton {who.release} has Python's backend only, and '{missing[1]}' is needed: its "
                "container has more, in docker or podman here, or as the tritonserver on PATH (--triton path)"
            )


_NO_BACKEND = re.compile(r"unable to find backend library for backend '([^']*)'")


def static_findings(models: Path, names: Sequence[str], release: str) -> list[str]:
    """Return what is wrong with an export for a release, as far as its files show it."""
    found = []
    for name in names:
        try:
            seen = preflight.judge(subject_in(models / name), release)
        except ConfigError as error:
            found.append(f"{name}: {error}")
        else:
            found += [f"{name}: {finding.sentence}" for finding in seen.findings]
    return found


def _written(
    root: Path, models: Path, verdicts: list[ReleaseVerdict], cases: list[GoldenCase], names: list[str]
) -> Verification:
    whole = models != root
    page = root / "verify.html" if whole else root.with_name(f"{root.name}.verify.html")
    record = root / "export.json" if whole else root.with_name(f"{root.name}.export.json")
    tested = {case.model for case in cases}
    missing = [
        f"the answers of {', '.join(silent)}: no request is kept for them; `%triton golden add` keeps one"
        for silent in [[name for name in names if name not in tested]]
        if silent
    ]
    missing += [f"Triton {each.release}: {each.problem}" for each in verdicts if not each.verified]
    verification = Verification(
        directory=root, releases=tuple(verdicts), not_verified=tuple(missing), page=page, record=record
    )
    document = _record(verification, models, names)
    for path, text in ((record, json.dumps(document, indent=1) + "\n"), (page, page_of(verification, document))):
        unfinished = path.with_name(f".{path.name}.part")
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    return verification


def _record(verification: Verification, models: Path, names: Sequence[str]) -> dict[str, Any]:
    return {
        "tritonlab": VERSION,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "where": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}".strip(),
        "target": [release.release for release in verification.releases],
        "features": {name: _features(models / name) for name in names},
        "files": dict(_files(models, names)),
        "verified": [release.to_dict() for release in verification.releases if release.verified],
        "not_verified": list(verification.not_verified),
    }


def _features(model: Path) -> list[str]:
    """Return what of Triton a model uses, as far as its config says."""
    try:
        config = read_config(model / CONFIG_FILE)
    except ConfigError:
        return []
    always = {"name", "backend", "platform", "max_batch_size", "input", "output", "instance_group", "version_policy"}
    found = [field.name for field, _ in config.ListFields() if field.name not in always]
    found += [PARAMETER] if PARAMETER in config.parameters else []
    return [*found, *([STUB] if (model / STUB).exists() else [])]


def _files(models: Path, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(path for name in names for path in (models / name).rglob("*")):
        relative = path.relative_to(models).as_posix()
        if path.is_symlink():
            yield relative, {"bytes": 0, "link": os.readlink(path)}
        elif path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            status = path.stat()
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            yield relative, {"bytes": status.st_size, "sha256": digest, "mode": mode}
