"""The imports that a model makes before anything else. A zygote may make these for it.

`first_imports` reads the source and runs nothing. It takes the statements of model.py from the first one on, as long as
they are imports or do nothing that another import could notice (definitions, constants, names). It ends at the first
statement that may do something, such as `os.environ[...] = ...`, `sys.path.insert(...)` or `if "torch" in sys.modules`;
later imports are left to the model itself. An imported file next to model.py is read in the same way. If nothing in
model.py ends them, the first imports of `initialize` follow, unless code of the author's that another import could
notice runs between the import of model.py and them. Measured with torch imported there, cells edited on a busy machine:
READY in 0.3 s with a zygote that has it, 6 s without.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import NamedTuple

from ...core.source.source_file import UNPARSABLE
from ...stub._pb_stub.wire.fork_bodies import ImportStep

#: The modules that every stub has imported.
_OURS = frozenset({"numpy", "triton_python_backend_utils", "c_python_backend_utils"})
#: Calls and decorators that only make an object.
_HARMLESS = frozenset({"getLogger", "TypeVar", "ParamSpec", "namedtuple"})
_DECORATORS = frozenset({"staticmethod", "classmethod", "property", "abstractmethod", "dataclass", "overload", "final"})
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow, ast.LShift, ast.BitOr)
_NOT_FOUND = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})
#: What an `auto_complete_config` may call besides methods of its arguments.
_BUILTINS = frozenset(
    {"bool", "dict", "enumerate", "float", "int", "len", "list", "range", "set", "sorted", "str", "zip"}
)
#: Statements and expressions with which it may reach more than its arguments.
_REACHING = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.ClassDef)
#: Larger sources are not worth the time.
_LARGEST = 1 << 20
#: Allows one file at a time to be parsed: Python 3.11 adds the depths of all threads' trees, and then raises
#: SystemError.
_PARSING = threading.Lock()


@dataclass
class FirstImports:
    """The imports, in order, and the place where they end, such as `model.py, line 3`; "" if nothing ends them."""

    steps: list[ImportStep] = field(default_factory=list)
    ended_by: str = ""
    #: the first import that comes too late to be one of them; empty if there is none
    missed: str = ""


def first_imports(path: str, paths: Sequence[str]) -> FirstImports:
    """Return the first imports of the model in the file `path`. The model's own modules are in `paths` and in the
    working directory."""
    reader = _Reader(["", *paths])
    reader.read_model(path, package=Path(path).parent.name)  # model.py is imported as `1.model`
    return reader.found


class _Reader:
    def __init__(self, directories: Sequence[str]) -> None:
        self.found = FirstImports()
        self._directories = directories
        self._seen: set[str] = set()

    def read_model(self, path: str, package: str) -> None:
        """Add the imports of model.py. `package`: the package from which its relative imports start."""
        module = _statements(path)
        if not self._read(path, package, module) or module is None:
            return
        statements, before = _initialize_body(module)
        if before is None:
            self._read(path, package, statements, nested=False)
        else:
            self._end(path, before)
            self.found.missed = next(self._imports_in(statements, nested=False), "")

    def _read(self, path: str, package: str, statements: Sequence[ast.stmt] | None, nested: bool = True) -> bool:
        """Add the imports of a file's statements. Returns False if one of them ended them. `nested`: those below an
        `if` count as missed."""
        if statements is None:
            self._end(path, None)
            return False
        for number, statement in enumerate(statements):
            if self._is_step(statement, package):
                continue
            if not self.found.ended_by:  # otherwise a file that it imports has ended them
                self._end(path, statement)
            self.found.missed = self.found.missed or next(self._imports_in(statements[number:], nested), "")
            return False
        return True

    def _end(self, path: str, statement: ast.stmt | None) -> None:
        self.found.ended_by = f"{Path(path).name}, line {statement.lineno}" if statement else Path(path).name

    def _imports_in(self, statements: Sequence[ast.stmt], nested: bool) -> Iterator[str]:
        for each in statements:
            for node in _parts(each) if nested or isinstance(each, ast.Try) else [each]:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names = [node.module]
                foreign = [name for name in names if not self._is_known(name)]
                yield from (name for name in foreign if self._own_file(name.partition(".")[0]) is None)

    # -- statements

    def _is_step(self, node: ast.stmt, package: str, optional: bool = False) -> bool:
        """Add the statement if it is an import. Returns False if it may do anything else."""
        if isinstance(node, ast.Import):
            return all(self._add(alias.name, [], optional) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            try:
                module = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module
            except ImportError:
                return False
            return self._add(module or "", [alias.name for alias in node.names], optional)
        if isinstance(node, ast.Try):
            return self._is_guarded(node, package)
        if isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING":
            return all(self._is_step(each, package) for each in node.orelse)
        return _does_nothing(node)

    def _is_guarded(self, node: ast.Try, package: str) -> bool:
        """Add imports that may fail, `try: import x except ImportError: x = None`. Returns False for another `try`."""
        for handler in node.handlers:
            kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            known = handler.type is None or all(_last_name(kind) in _NOT_FOUND for kind in kinds if kind is not None)
            if not known or not all(_does_nothing(each) for each in handler.body):
                return False
        imports = all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in node.body)
        return (
            imports
            and all(self._is_step(each, package, optional=True) for each in node.body)
            and all(_does_nothing(each) for each in [*node.orelse, *node.finalbody])
        )

    def _add(self, module: str, names: list[str], optional: bool) -> bool:
        if self._own_file(module.partition(".")[0]) is not None:
            return self._add_own(module, names)
        if not self._is_known(module) or (names and module == "numpy"):
            self._append(ImportStep(module, tuple(names), optional, False))
        return True

    def _append(self, step: ImportStep) -> None:
        if step not in self.found.steps:
            self.found.steps.append(step)

    @staticmethod
    def _is_known(module: str) -> bool:
        """Return whether a stub has imported the module, or it is of the standard library."""
        return module in _OURS or module.partition(".")[0] in sys.stdlib_module_names

    # -- the author's own files

    def _own_file(self, name: str) -> str | None:
        """Return the directory with a module of that name; None if there is none. A directory without `__init__.py`
        yields to an installed module. Whether the model's Python has the module is a guess, which the zygote checks."""
        for directory in self._directories:
            base = os.path.join(directory, name)
            if os.path.isfile(base + ".py") or os.path.isfile(os.path.join(base, "__init__.py")):
                return directory
            if os.path.isdir(base) and not _is_installed(name):
                return directory
        return None

    def _add_own(self, module: str, names: list[str]) -> bool:
        """Read the author's files that `import module` executes: packages from the outside in, then named modules."""
        root, *others = module.split(".")
        directory = self._own_file(root)
        assert directory is not None
        if directory:  # otherwise it is in the working directory, which precedes the installed modules
            self._append(ImportStep(root, (), False, True))
        base, package = os.path.join(directory, root), root
        for part in [*others, ""]:
            if os.path.isdir(base):
                init = os.path.join(base, "__init__.py")
                if os.path.exists(init) and not self._read_once(init, package):
                    return False
                base, package = os.path.join(base, part), f"{package}.{part}" if part else package
            elif not self._read_once(base + ".py", package.rpartition(".")[0]):
                return False
        candidates = [os.path.join(base, name) for name in names]
        if any(os.path.isdir(path) for path in candidates):
            return False
        return all(self._read_once(path + ".py", package) for path in candidates if os.path.exists(path + ".py"))

    def _read_once(self, path: str, package: str) -> bool:
        path = os.path.abspath(path)
        if path in self._seen:
            return True
        self._seen.add(path)
        return self._read(path, package, _statements(path))


def _parts(statement: ast.stmt) -> Iterator[ast.AST]:
    return iter(()) if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else ast.walk(statement)


def _is_installed(name: str) -> bool:
    """Return whether this process would import a module of that name, not from a directory without `__init__.py`."""
    with contextlib.suppress(ValueError):  # raised for a module that was made by hand
        spec = find_spec(name)
        return spec is not None and spec.origin is not None
    return False


def _statements(path: str) -> list[ast.stmt] | None:
    """Return a file's statements; None if it is not valid Python, which the stub reports."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _LARGEST:
            return None
        with _PARSING:
            return ast.parse(Path(path).read_bytes()).body
    except (OSError, *UNPARSABLE):
        return None


def _does_nothing(node: ast.stmt) -> bool:
    """Return whether a statement only defines names."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = node.args
        evaluated = [*arguments.defaults, *arguments.kw_defaults, node.returns]
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if each is not None:
                evaluated.append(each.annotation)
        return _decorated_harmlessly(node) and all(map(_is_plain, filter(None, evaluated)))
    if isinstance(node, ast.ClassDef):
        plain = not node.keywords and all(map(_is_plain, node.bases)) and _decorated_harmlessly(node)
        return plain and all(map(_does_nothing, node.body))
    if isinstance(node, ast.Assign):
        return all(map(_is_name, node.targets)) and _is_plain(node.value)
    if isinstance(node, ast.AnnAssign):
        return _is_name(node.target) and _is_plain(node.value) and _is_plain(node.annotation)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, (ast.Pass, ast.Global))


def _decorated_harmlessly(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    for each in node.decorator_list:
        if _last_name(each.func if isinstance(each, ast.Call) else each) not in _DECORATORS:
            return False
    return True


def _is_name(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return all(map(_is_name, node.elts))
    return isinstance(node, ast.Name)


def _is_plain(node: ast.expr | None) -> bool:
    """Return whether the expression only looks names up or makes plain objects."""
    if node is None or isinstance(node, (ast.Constant, ast.Name, ast.Lambda)):
        return True
    if isinstance(node, ast.Attribute):
        return _is_plain(node.value)
    if isinstance(node, ast.Subscript):
        return _is_plain(node.value) and _is_plain(node.slice)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(map(_is_plain, node.elts))
    if isinstance(node, ast.Dict):
        return all(map(_is_plain, [*node.keys, *node.values]))
    if isinstance(node, ast.UnaryOp):
        return _is_plain(node.operand)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _OPERATORS) and _is_plain(node.left) and _is_plain(node.right)
    if isinstance(node, ast.Call):
        return _last_name(node.func) in _HARMLESS and all(map(_is_plain, node.args))
    return False


def _last_name(node: ast.expr | None) -> str:
    """Return the last part of a dotted name: `getLogger` of `logging.getLogger`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


class _InitializeBody(NamedTuple):
    """The statements of `initialize`, and the definition of code that may do something before; None if nothing does."""

    statements: Sequence[ast.stmt]
    before: ast.stmt | None


def _initialize_body(module: Sequence[ast.stmt]) -> _InitializeBody:
    """Return the body for the statements of model.py, all of which only import and define. It is empty if it is not
    clear which function `initialize` is."""
    nothing = _InitializeBody((), None)
    named = [each for each in module if {"TritonPythonModel", "*"} & _bound(each)]
    if len(named) != 1 or not isinstance(named[0], ast.ClassDef):
        return nothing
    kind = named[0]
    methods = [each for each in kind.body if "initialize" in _bound(each)]
    if kind.bases or kind.keywords or kind.decorator_list or len(methods) != 1:
        return nothing
    method = methods[0]
    if not isinstance(method, ast.FunctionDef) or method.decorator_list:
        return nothing
    return _InitializeBody(method.body, next((each for each in kind.body if _may_run_before(each)), None))


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds, and `*`."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    parts = list(ast.walk(statement))
    names = {node.id for node in parts if isinstance(node, ast.Name) and _is_stored(node)}
    return names.union(*(_bound(each) for each in parts if each is not statement and isinstance(each, ast.stmt)))


def _may_run_before(member: ast.stmt) -> bool:
    """Return whether a member of the class may run before `initialize`, with effects that an import could notice."""
    decorators = {getattr(each, "id", "") for each in getattr(member, "decorator_list", ())}
    if decorators - {"staticmethod", "classmethod"}:  # such as a property, which `self.device` calls
        return True
    names = _bound(member)
    if "auto_complete_config" in names:
        return not (isinstance(member, ast.FunctionDef) and _only_tells(member))
    return any(name.startswith("__") and name.endswith("__") for name in names)


def _only_tells(function: ast.FunctionDef) -> bool:
    """Return whether a function uses only its arguments, its own values and harmless builtins."""
    nodes = [node for statement in function.body for node in ast.walk(statement)]
    own = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and _is_stored(node)}
    for node in nodes:
        if isinstance(node, _REACHING):
            return False
        if isinstance(node, ast.Name) and node.id not in own | _BUILTINS:
            return False
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            return False
    return True


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)
