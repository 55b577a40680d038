"""P2 to P4: what the model's code really imported, opened and read of the environment, and what of it a deployed
server lacks."""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

from .finding import Finding, Prediction
from .guards import guarded
from .subject import SourceFile, Subject, line_of

#: Modules that the image brings, and ours.
_BROUGHT = {"numpy", "triton_python_backend_utils", "c_python_backend_utils"}
#: Variables that a container sets as well, or that a model can do without.
_USUAL = {
    "PATH",
    "HOME",
    "PWD",
    "LANG",
    "LC_ALL",
    "TERM",
    "USER",
    "HOSTNAME",
    "SHELL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
}
_USUAL |= {"PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
#: Where a deployed server has files of its own.
_EVERYWHERE = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/bin", "/opt/tritonserver")
_NAMED = 3


def third_party_imports(subject: Subject) -> Iterator[Finding]:
    """P2: what is imported and a stock image lacks, unless the model brings an environment."""
    if subject.environment_value:
        return
    direct = dict(direct_imports(subject))
    found: dict[str, Distribution | None] = {}
    for module in subject.third_party:
        if module.top in direct and module.is_packaged and not found.get(module.top):
            found[module.top] = module.distribution
    if not found:
        return
    optional = optional_imports(subject)
    names = sorted((name for name in direct if name in found), key=optional.__contains__)
    # no index has the local part of a version, as in 2.13.0+cpu
    pins = {
        name: f"{each.metadata['Name']}=={each.version.partition('+')[0]}" if each else name
        for name, each in found.items()
    }
    pinned = " ".join(dict.fromkeys(pins[name] for name in names))
    can_do_without = set(names) <= optional
    yield Finding(
        row="P2",
        sentence=f"it imports {_some(names)}, which Triton's image does not bring"
        + (", and goes on without" if can_do_without else ""),
        remedy=f"pack an environment and name it in EXECUTION_ENV_PATH, or build an image with `pip install {pinned}`",
        source_line=direct[names[0]],
        outcome=Prediction.ATTENTION if can_do_without else Prediction.LOAD,
    )


def modules_beside_the_notebook(subject: Subject) -> Iterator[Finding]:
    """P4: modules from the working directory, or from another one that only this machine has."""
    direct = dict(direct_imports(subject))
    for module in subject.third_party:
        if module.is_packaged or module.name != module.top or module.name in _BROUGHT | subject.own_modules:
            continue
        file = Path(module.file)
        name = f"{file.parent.name}/{file.name}" if file.name == "__init__.py" else file.name
        yield Finding(
            row="P4",
            sentence=f"it imports {module.name} from {module.file}, where a deployed server does not find it",
            remedy=f"put {name} beside model.py, with --file {module.file} or a "
            f"%%triton_file {subject.name} {name} cell",
            source_line=direct.get(module.name, ""),
            outcome=Prediction.LOAD,
        )


def files_and_variables(subject: Subject) -> Iterator[Finding]:
    """P3: files and environment variables that are read and that a deployed server lacks."""
    recorded: dict[str, str] = {}
    # files of the model may be links here, to where the repository is that it was opened from
    own = {os.path.realpath(subject.directory / file) for file in subject.tree.files}
    for reads in subject.reads:
        for file in reads.files:
            if os.path.exists(file.path) and os.path.realpath(file.path) not in own:
                recorded.setdefault(file.path, f"{file.file}:{file.line}")
    yield from _of_files(subject, recorded)
    variables: dict[str, str] = {}
    for reads in subject.reads:
        for variable in reads.variables:
            if variable.name not in _USUAL:
                variables.setdefault(variable.name, f"{variable.file}:{variable.line}")
    for name, line in variables.items():
        yield Finding(
            row="P3",
            sentence=f"it reads the environment variable {name}, which is set here and may not be there",
            remedy=f"set it there, as in `docker run -e {name}=...`, or make it a parameter of the config",
            source_line=line,
            outcome=Prediction.LOAD if _needs_variable(line) else Prediction.DIFFERS,
        )


def _needs_variable(line: str) -> bool:
    """Return whether the author's line fails without the variable, and has no other value for it."""
    file, _, number = line.rpartition(":")
    return "environ[" in linecache.getline(file, int(number))


def _of_files(subject: Subject, recorded: dict[str, str]) -> Iterator[Finding]:
    groups: dict[str, list[str]] = {}
    for path in recorded:
        groups.setdefault(os.path.dirname(path), []).append(path)
    for folder, paths in groups.items():
        many = f"{len(paths)} files of {folder}" if len(paths) > _NAMED else " and ".join(paths)
        yield Finding(
            row="P3",
            sentence=f"it opens {many}, outside of its directory, which a deployed server does not have",
            remedy="bring it with --file (files=) and open it beside model.py: os.path.join(os.path.dirname(__file__), "
            f"{os.path.basename(paths[0])!r})",
            source_line=recorded[paths[0]],
            outcome=Prediction.LOAD,
        )
    for source, node, path in _paths_in(subject):
        if path not in recorded and not any(path == folder or folder.startswith(path + "/") for folder in groups):
            yield Finding(
                row="P3",
                sentence=f"it names {path}, a path of this machine",
                remedy="bring the file with --file (files=) and name it relative to os.path.dirname(__file__)",
                source_line=line_of(source, node),
                # while it was loaded, it did not open it
                outcome=Prediction.FAILS if subject.reads else Prediction.LOAD,
            )


def _paths_in(subject: Subject) -> Iterator[tuple[SourceFile, ast.Constant, str]]:
    """Yield the absolute paths that the sources spell out and that lead out of the model on this machine."""
    seen: set[str] = set()
    own = os.path.realpath(subject.directory) + os.sep
    for source in subject.sources:
        for node in ast.walk(source.tree) if source.tree is not None else ():
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/")):
                continue
            path = node.value.rstrip("/")
            if path in seen or len(path) > 1000 or path.count("/") < 2 or "\n" in path or "\0" in path:
                continue
            usual = any(path == each or path.startswith(each + "/") for each in _EVERYWHERE)
            if not usual and os.path.exists(path) and not os.path.realpath(path).startswith(own):
                seen.add(path)
                yield source, node, path


def direct_imports(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield the top-level modules that the model's files import and neither Python nor the model has, with the line."""
    seen: set[str] = set()
    known = _BROUGHT | subject.own_modules | set(sys.stdlib_module_names)
    for source in subject.sources:
        for node in ast.walk(source.tree) if source.tree is not None else ():
            for name in imported_by(node):
                top = name.partition(".")[0]
                if top not in known | seen:
                    seen.add(top)
                    yield top, line_of(source, node)


def optional_imports(subject: Subject) -> set[str]:
    """Return the top-level modules that the model's files import where they do without them if they are missing, and
    nowhere else."""
    guarded_ones: set[str] = set()
    others: set[str] = set()
    for source in subject.sources:
        if source.tree is None:
            continue
        without = guarded(source.tree, "ImportError", "ModuleNotFoundError", broad_in_functions=True)
        for node in ast.walk(source.tree):
            tops = {name.partition(".")[0] for name in imported_by(node)}
            (guarded_ones if node in without else others).update(tops)
    return guarded_ones - others


def imported_by(node: ast.AST) -> list[str]:
    """Return the modules that a statement, or a call of `import_module` with a constant, imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module and not node.level else []
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            return [node.args[0].value]
    return []


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
