"""P2 to P4: the modules, files and environment variables that the model's code actually used, and which of them a
deployed server lacks."""

from __future__ import annotations

import ast
import linecache
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from pathlib import Path

from ....core.quoting import magic_line
from ....core.source.guards import guarded, never_run
from ....core.source.source_file import SourceFile
from ....ipc.link.stub_link import ReadFile
from ....stub._pb_stub.process.reads_record import (
    HELD,
    LISTED,
    LOADED,
    LOOKED,
    OPENED,
    PASSED,
    STARTED,
    is_everywhere,
)
from ..environment.lock import url_of
from ..releases import Target
from ..verify.hiding import is_in
from .finding import Finding, Prediction, worst
from .moments import outcome_at
from .pickles import modules_of_pickles
from .subject import Subject, last_name, line_of, python_there, version_of

#: Modules of the image, and ours.
_BROUGHT = {"numpy", "triton_python_backend_utils", "c_python_backend_utils"}
#: Variables that a container also sets, or that a model does not require.
USUAL = {
    *("PATH", "HOME", "PWD", "LANG", "LC_ALL", "TERM", "USER", "HOSTNAME", "SHELL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
}
#: The ways in which a model uses a file.
_VERBS = {OPENED: "opens", LISTED: "lists", LOOKED: "looks for", STARTED: "starts a program with", LOADED: "loads"}
#: Directories that every machine has, so that a source may name them.
_MOUNTED = {"/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/share", "/dev/shm"}
_MOUNTED |= {"/var/tmp", "/var/log", "/var/run"}
_NAMED = 3
#: Functions and methods that make a directory.
_MAKING = {"mkdir", "makedirs"}

#: A path in a source.
_Spelled = tuple[SourceFile, ast.Constant, str]


def third_party_imports(subject: Subject, target: Target) -> Iterator[Finding]:
    """P2: imports that a stock image lacks, unless the model brings an environment."""
    if subject.environment_value:
        return
    direct = direct_imports(subject, python_there(subject, target))
    loaded = {module.top for module in subject.third_party if module.is_packaged} - _BROUGHT
    for top, file in modules_of_pickles(subject).items():
        if top in loaded and top not in direct:  # not named in a source: the pickle imports it
            direct[top] = _Import([file])
    found: dict[str, Distribution | None] = {name: None for name, each in direct.items() if each.is_only_there}
    for module in subject.third_party:
        if module.top in direct and module.is_packaged and not found.get(module.top):
            found[module.top] = module.distribution
    # the rest is in the lock that is exported with the model
    found = {name: each for name, each in found.items() if not (each and each.metadata["Name"].lower() in subject.pins)}
    if not found:
        return
    names = sorted((name for name in direct if name in found), key=lambda name: not direct[name].needing)
    # indexes lack the local part of a version, as in 2.13.0+cpu
    pins = {
        name: f"{each.metadata['Name']}=={each.version.partition('+')[0]}" if each else name
        for name, each in found.items()
        if each is None or not url_of(each).startswith("file:")
    }
    pinned = " ".join(dict.fromkeys(pins[name] for name in names if name in pins))
    local = _some([name for name in names if name not in pins])
    outcome = worst(direct[name].outcome(subject) for name in names)
    yield Finding(
        row="P2",
        sentence=f"it imports {_some(names)}, which Triton's image does not bring"
        + (", and goes on without" if outcome is Prediction.ATTENTION else ""),
        remedy="export it with --env archive (env='archive'), which packs them"
        + (f"; {local} was installed from a local file, which no index has" if local else "")
        + (f", or build an image with `pip install {pinned}`" if pinned else ""),
        source_line=direct[names[0]].line,
        outcome=outcome,
    )


def modules_beside_the_notebook(subject: Subject, target: Target) -> Iterator[Finding]:
    """P4: modules from the working directory, or from another directory that only this machine has."""
    direct = direct_imports(subject, python_there(subject, target))
    for module in subject.third_party:
        if module.is_packaged or module.name != module.top or module.name in _BROUGHT | subject.own_modules:
            continue
        file = Path(module.file)
        file = file.parent if file.name == "__init__.py" else file  # a package is a directory
        cell = f" or a {magic_line('%%triton_file', subject.name, file.name)} cell" if file.suffix == ".py" else ""
        found = direct.get(module.name)
        yield Finding(
            row="P4",
            sentence=f"it imports {module.name} from {module.file}, where a deployed server does not find it",
            remedy=f"put {file.name} beside model.py, with {magic_line('--file', str(file))}{cell}",
            source_line=found.line if found else "",
            outcome=found.outcome(subject) if found and found.needing else Prediction.LOAD,
        )


def files_and_variables(subject: Subject) -> Iterator[Finding]:
    """P3: files and environment variables that the model reads and a deployed server lacks."""
    recorded: dict[str, ReadFile] = {}
    # files of the model may be links into the repository that was opened
    own = {os.path.realpath(subject.directory / file) for file in subject.tree.files}
    written = [path for reads in subject.reads for path in reads.written]
    for reads in subject.reads:
        for file in reads.files:
            if file.how in (LOOKED, LISTED) and any(_is_made(each, file.path) for each in subject.sources if each.tree):
                continue  # a process that only completed the config may have made it
            is_there = os.path.exists(file.path) and os.path.realpath(file.path) not in own
            if is_there and file.how not in (HELD, PASSED):
                recorded.setdefault(file.path, file)
    spelled = [each for each in _paths_in(subject) if not is_in(each[2], *written) and not _is_made(each[0], each[2])]
    beside = {path: name for path, file in recorded.items() if (name := _name_beside(subject, file, spelled))}
    yield from _of_files_beside(subject, recorded, beside)
    elsewhere = {path: file for path, file in recorded.items() if path not in beside}
    yield from _of_files(subject, elsewhere, spelled)
    yield from _of_code_that_is_not_python(subject)
    yield from _of_others(subject)
    variables: dict[str, str] = {}
    for reads in subject.reads:
        for variable in reads.variables:
            if variable.name not in USUAL:
                variables.setdefault(variable.name, f"{variable.file}:{variable.line}")
    for name, line in variables.items():
        yield Finding(
            row="P3",
            sentence=f"it reads the environment variable {name}, which is set here and may not be there",
            remedy=f"set it there, as in `docker run -e {shlex.quote(name)}=...`, or make it a parameter of the config",
            source_line=line,
            outcome=outcome_at(subject, line) if _needs_variable(line) else Prediction.DIFFERS,
        )


def paths_of_the_machine(subject: Subject) -> set[str]:
    """Return the paths outside of its directory that the model has read, or that its sources name."""
    read = {file.path for reads in subject.reads for file in reads.files}
    return read | {path for _, _, path in _paths_in(subject)}


def _needs_variable(line: str) -> bool:
    """Return whether the author's line fails without the variable, because it has no default."""
    file, _, number = line.rpartition(":")
    return "environ[" in linecache.getline(file, int(number))


def _of_code_that_is_not_python(subject: Subject) -> Iterator[Finding]:
    """Yield the files that changed the model's answers when hidden, and that no line of Python opens."""
    for path, outcome in subject.needed.items():
        is_folder = path.endswith("/")
        yield Finding(
            row="P3",
            sentence=f"it reads {'a file of ' * is_folder}{path}, by code that is not Python: without it, it "
            f"{outcome.value}",
            remedy="bring it with --file (files=) and name it relative to os.path.dirname(__file__)",
            outcome=outcome,
        )


def _of_others(subject: Subject) -> Iterator[Finding]:
    """Yield the programs that the model starts and the addresses that it connects to."""
    for reads in subject.reads:
        for program in reads.programs:
            yield Finding(
                row="P3",
                sentence=f"it starts the program {program.name}, which Triton's image may not have",
                remedy="build an image with it",
                source_line=f"{program.file}:{program.line}",
            )
        for address in reads.connections:
            line = f"{address.file}:{address.line}"
            is_here = address.name.rpartition("://")[2].startswith(("localhost", "127.", "[::1]", "/"))
            yield Finding(
                row="P3",
                sentence=f"it connects with {address.name}, "
                + ("which is this machine" if is_here else "which the deployed server has to reach"),
                remedy="make the address a parameter of the config or an environment variable",
                source_line=line,
                outcome=outcome_at(subject, line) if is_here else Prediction.ATTENTION,
            )


def _of_files_beside(
    subject: Subject, recorded: Mapping[str, ReadFile], beside: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield the files next to the model in its repository: Triton serves with them present, but an export of the model
    alone has only the model."""
    groups: dict[bool, list[str]] = {}
    for path, name in beside.items():
        groups.setdefault(any((place / name).exists() for place in subject.repositories), []).append(path)
    for is_there, paths in groups.items():
        first = recorded[paths[0]]
        line = f"{first.file}:{first.line}"
        yield Finding(
            row="P3",
            sentence=f"it opens {_some(paths, 'files of its repository')}, beside the model directory, which "
            + ("is there if the whole repository is" if is_there else "is not exported with the model"),
            remedy=(
                "deploy the repository as it is, or `tritonlab.open(...).export(...)`, which takes what lies beside "
                "the models"
                if is_there
                else f"copy {' and '.join(beside[path] for path in paths[:_NAMED])} into the repository there, or "
                "bring it with --file (files=) and open it beside model.py"
            ),
            source_line=line,
            outcome=Prediction.ATTENTION if is_there else outcome_at(subject, line),
        )


def _name_beside(subject: Subject, file: ReadFile, spelled: Iterable[_Spelled]) -> str:
    """Return the repository path of a file that the model finds relative to its own place; empty for other files, such
    as files that it names by an absolute path or relative to the working directory."""
    folder, last = os.path.split(file.path)
    name = os.path.relpath(os.path.join(os.path.realpath(folder), last), os.path.realpath(subject.directory.parent))
    parameters = [value.string_value for value in subject.config.parameters.values() if value.string_value]
    named = [*(path for _, _, path in spelled), *parameters]
    return "" if file.is_relative or name.startswith(os.pardir) or is_in(file.path, *named) else name


def _of_files(subject: Subject, recorded: Mapping[str, ReadFile], spelled: Iterable[_Spelled]) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[str]] = {}
    for path, file in recorded.items():
        groups.setdefault((os.path.dirname(path), file.how), []).append(path)
    for (folder, how), paths in groups.items():
        lines = [f"{recorded[path].file}:{recorded[path].line}" for path in paths]
        does_without = subject.without is Prediction.ATTENTION
        yield Finding(
            row="P3",
            sentence=f"it {_VERBS[how]} {_some(paths, f'files of {folder}')}, outside of its directory, which a "
            "deployed server does not have" + ", and its answers are the same without" * does_without,
            remedy="bring it with --file (files=) and open it beside model.py: os.path.join(os.path.dirname(__file__), "
            f"{os.path.basename(paths[0])!r})",
            source_line=lines[0],
            outcome=_weigh(
                subject, [Prediction.DIFFERS] if how == LOOKED else [outcome_at(subject, line) for line in lines]
            ),
        )
    named = [*(folder for folder, _ in groups), *subject.needed]
    # it was not opened during the load, nor during its requests, if they were sent
    unread = Prediction.FAILS if subject.reads else Prediction.LOAD
    unread = Prediction.ATTENTION if subject.without is not None else unread
    for source, node, path in spelled:
        if path not in recorded and not any(path == each or each.startswith(path + "/") for each in named):
            yield Finding(
                row="P3",
                sentence=f"it names {path}, a path of this machine",
                remedy="bring the file with --file (files=) and name it relative to os.path.dirname(__file__)",
                source_line=line_of(source, node),
                outcome=unread,
            )


def _weigh(subject: Subject, outcomes: Iterable[Prediction]) -> Prediction:
    """Return the effect of missing files, as their lines show, but no worse than observed."""
    order = list(Prediction)
    return max(worst(outcomes), subject.without or Prediction.LOAD, key=order.index)


def _is_made(source: SourceFile, path: str) -> bool:
    """Return whether a source itself makes the directory of this path, by its path or by a name assigned to it."""
    tree = source.tree
    assert tree is not None
    names: set[str] = set()

    def has_it(part: ast.AST) -> bool:
        each = [*ast.walk(part)]
        texts = (node.value for node in each if isinstance(node, ast.Constant) and isinstance(node.value, str))
        return any(text.rstrip("/") == path for text in texts) or any(
            isinstance(node, ast.Name | ast.Attribute) and last_name(node) in names for node in each
        )

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and has_it(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(filter(None, map(last_name, targets)))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and last_name(node.func) in _MAKING)
    return any(has_it(call) for call in calls)


def _paths_in(subject: Subject) -> Iterator[_Spelled]:
    """Yield the absolute paths in the sources that lead out of the model on this machine."""
    seen: set[str] = set()
    own = os.path.realpath(subject.directory) + os.sep
    for source in subject.sources:
        not_run = never_run(source.tree) if source.tree is not None else set()
        for node in ast.walk(source.tree) if source.tree is not None else ():
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/")):
                continue
            if node in not_run:
                continue
            path = os.path.normpath(node.value.rstrip("/").replace("//", "/"))
            if path in seen or len(path) > 1000 or path.count("/") < 2 or "\n" in path or "\0" in path:
                continue
            usual = path in _MOUNTED or is_everywhere(path)
            if not usual and os.path.exists(path) and not os.path.realpath(path).startswith(own):
                seen.add(path)
                yield source, node, path


@dataclass
class _Import:
    """A top-level module that the model's files import, with the lines, first the ones that require it.
    `is_only_there`: whether the import runs with the target's Python but not with the one here."""

    needing: list[str] = field(default_factory=list)
    doing_without: list[str] = field(default_factory=list)
    is_only_there: bool = False

    @property
    def line(self) -> str:
        return [*self.needing, *self.doing_without][0]

    def outcome(self, subject: Subject) -> Prediction:
        """Return the effect of the missing module."""
        return worst(outcome_at(subject, line) for line in self.needing)


def direct_imports(subject: Subject, python: tuple[int, ...] = ()) -> dict[str, _Import]:
    """Return the top-level modules that the model's files import and that belong neither to Python nor to the model.
    `python`: the version at the target."""
    found: dict[str, _Import] = {}
    known = _BROUGHT | subject.own_modules | set(sys.stdlib_module_names)
    for source in subject.sources:
        if source.tree is None:
            continue
        without = guarded(source.tree, "ImportError", "ModuleNotFoundError", broad_in_functions=True, python=python)
        not_here = never_run(source.tree, version_of(subject.python))
        for node in ast.walk(source.tree):
            for top in {name.partition(".")[0] for name in imported_by(node)} - known:
                each = found.setdefault(top, _Import())
                (each.doing_without if node in without else each.needing).append(line_of(source, node))
                each.is_only_there |= node in not_here and node not in without
    return found


def imported_by(node: ast.AST) -> list[str]:
    """Return the modules that a statement, or a call of `import_module` with a constant, imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module and not node.level else []
    if isinstance(node, ast.Call) and last_name(node.func) in ("import_module", "__import__"):
        return [each.value for each in node.args[:1] if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return []


def _some(names: Sequence[str], all_of_them: str = "") -> str:
    """Return names in words; if there are many, the first, or `<number> <all_of_them>`."""
    more = len(names) - _NAMED
    if all_of_them:
        return f"{len(names)} {all_of_them}" if more > 0 else " and ".join(names)
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
