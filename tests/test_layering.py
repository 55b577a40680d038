"""Which file may import which: a package imports from lower levels or from itself, never upward, never in a circle.

Reads the sources, imports nothing: what a function would import only when called is found too.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

#: Lowest first. A name is a package or module under `tritonlab/`; the longest one that fits a module says its level.
#: Names on one line may not import each other; modules of one name may, in no circle.
LEVELS: list[list[str]] = [
    ["stub._pb_stub.devices"],
    ["stub._pb_stub.wire"],
    ["stub._pb_stub.api"],
    ["stub._pb_stub.process"],
    ["stub"],
    ["kernel_modules", "tool_table"],
    ["backends"],
    ["core"],
    ["figures"],
    ["repository"],
    ["ipc"],
    ["engine"],
    ["engine.schedulers"],
    ["server.models"],
    ["server.observe"],
    ["server"],
    ["server.api"],
    ["tritonserver"],
    ["frontends.shared"],
    ["frontends.http", "frontends.grpc"],
    ["frontends"],
    ["frontends.cli"],
    ["ray", "dynamo"],
    ["record"],
    ["exchanges"],
    ["notebook.kernel_status"],
    ["notebook.authoring"],
    ["notebook.views"],
    ["notebook.model"],
    ["notebook.shell"],
    ["tools.saved_result", "tools.each_model"],
    ["tools.measure.load_testing"],
    ["tools.measure.tuning", "tools.check", "tools.deploy", "tools.openai", "tools.capture"],
    ["tools.capture.push"],
    ["tools.measure.measure_run"],
    ["doctor", "golden_run", "quickstart", "runtime", "model_testing"],
    ["__init__", "__main__", "testing"],
    ["site_packages"],
]

#: The imports inside a function that are wanted, and why: (module, import). All of them go down or stay in their room.
#: The functions of subcommands, which `tool_table` names, are imported when they run; `test_tool_table.py` finds
#: each.
#: "N ms" is what the import takes after `import tritonlab`, which takes 560 ms itself, the least of three (2026-11-26,
#: 2 cores, load average 8).
_GRPC = "gRPC, which a notebook without ports or servers elsewhere does without: "
LAZY = {
    ("tritonlab", "tritonlab.runtime"): "only for %load_ext, or the first public name: 0.7 s",
    ("tritonlab", "tritonlab.notebook.shell.magics"): "IPython, which a server without a notebook lacks: 249 ms",
    ("tritonlab.exchanges.remote.remote_server", "tritonlab.exchanges.remote.grpc_link"): "gRPC, unused over HTTP",
    ("tritonlab.tools.measure.load_testing.remote_target", "tritonlab.tools.measure.load_testing.grpc_calls"): (
        "gRPC, unused over HTTP"
    ),
    ("tritonlab.tools.deploy.report", "tritonlab.tools.deploy.verify.verdict_history"): (
        "only for a zip file, with gRPC"
    ),
    ("tritonlab.tools.deploy.report", "tritonlab.tools.deploy.image_build"): "only for `build`",
    ("tritonlab.tools.deploy.preflight.judge", "tritonlab.tools.deploy.preflight.trial"): (
        "only for a trial: 3 ms at %load_ext"
    ),
    ("tritonlab.tools.deploy.repository", "tritonlab.tools.deploy.preflight.trial"): (
        "only for a proof: 3 ms at %load_ext"
    ),
    ("tritonlab.tools.capture.tap.tap_command", "tritonlab.tools.capture.tap.capture_process"): (
        "numpy and gRPC, which the forwarding process does without"
    ),
    ("tritonlab.frontends.endpoints", "tritonlab.frontends.grpc.grpc_server"): "gRPC, which other ports do without",
    ("tritonlab.server.api.model", "tritonlab.figures.rows_table"): "only for `table()` of an answer",
    ("tritonlab.notebook.authoring.workspace", "tritonlab.notebook.authoring.model_watch"): "only for `%triton watch`",
    ("tritonlab.notebook.authoring.notebook_ports", "tritonlab.notebook.authoring.serving"): f"{_GRPC}188 ms",
    ("tritonlab.notebook.model", "tritonlab.record.line_profiling"): "only for `profile`: 11 ms",
    ("tritonlab.notebook.views.opener", "tritonlab.notebook.views.playground.playground"): "only for a form: 59 ms",
    ("tritonlab.notebook.views.opener", "tritonlab.notebook.views.record.opening"): "only for a view: 113 ms",
    ("tritonlab.notebook.views.playground.other_server", "tritonlab.exchanges.remote.remote_server"): f"{_GRPC}98 ms",
    ("tritonlab.runtime", "tritonlab.exchanges.remote.remote_server"): f"{_GRPC}88 ms",
    ("tritonlab.runtime", "tritonlab.notebook.authoring.hints"): "only for errors of servers elsewhere: 22 ms",
}

#: What the stub may import besides the standard library and itself: it is started by any interpreter that has numpy.
STUB_MAY_IMPORT = {"numpy"}
#: The author-facing modules find one another by name, because model.py imports them that way.
STUB_TOP_LEVEL = {"triton_python_backend_utils", "c_python_backend_utils", "_pb_stub"}

#: The beginning of the names of modules of tools; everything else is the house.
TOOLS = "tritonlab.tools."
#: The types of tools that signatures of the house's public functions name: (module, import). Type checkers alone import
#: them.
TYPES_OF_TOOLS = {
    ("tritonlab.exchanges.remote.remote_server", "tritonlab.tools.capture.push.push_result"),
    ("tritonlab.notebook.authoring.opened_repository", "tritonlab.tools.deploy.report"),
    ("tritonlab.notebook.model", "tritonlab.tools.check.check_result"),
    ("tritonlab.notebook.model", "tritonlab.tools.deploy.preflight.finding"),
    ("tritonlab.notebook.model", "tritonlab.tools.measure.tuning.tune_result"),
    ("tritonlab.notebook.model", "tritonlab.tools.measure.tuning.what_if"),
    ("tritonlab.runtime", "tritonlab.tools.capture.capture_writer"),
    ("tritonlab.runtime", "tritonlab.tools.capture.server_capture"),
    ("tritonlab.runtime", "tritonlab.tools.deploy.environment.placed"),
    ("tritonlab.runtime", "tritonlab.tools.deploy.report"),
    ("tritonlab.runtime", "tritonlab.tools.deploy.verify.verdict"),
    ("tritonlab.runtime", "tritonlab.tools.measure.load_testing.load_panel"),
    ("tritonlab.site_packages.pytest_tritonlab", "tritonlab.tools.check.check_result"),
    ("tritonlab.testing", "tritonlab.tools.check.run"),
    ("tritonlab.testing", "tritonlab.tools.check.strategies"),
}

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tritonlab"


class Import(NamedTuple):
    """One import of `target` (absolute, dotted) at `line` of `module`."""

    module: str
    target: str
    line: int
    in_function: bool
    for_types: bool


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


#: What imports are, or stand in; no expression has one.
_HAVE_IMPORTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def imports_of(path: Path, root: Path) -> Iterator[Import]:
    """Yield every import statement of the file, relative ones made absolute; `from a import b` counts as `a.b`."""
    name = module_name(path, root)
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]

    def walk(node: ast.AST, in_function: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _HAVE_IMPORTS):
                continue
            inside = in_function or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            typing_only = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(name, alias.name, child.lineno, inside, typing_only)
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                stem = ".".join([*base, *([child.module] if child.module else [])])
                for alias in child.names:
                    yield Import(name, f"{stem}.{alias.name}", child.lineno, inside, typing_only)
            yield from walk(child, inside, typing_only)

    yield from walk(ast.parse(path.read_text(encoding="utf-8"), str(path)), False, False)


def own_imports(root: Path = ROOT, package: Path = PACKAGE) -> list[Import]:
    """Return the imports of our own modules, each target cut to the module that is really there."""
    modules = {module_name(path, root) for path in package.rglob("*.py")}
    found = []
    for path in sorted(package.rglob("*.py")):
        for item in imports_of(path, root):
            target = item.target
            while target and target not in modules:
                target = target.rpartition(".")[0]
            if target:
                found.append(item._replace(target=target))
    return found


@functools.cache
def package_imports() -> list[Import]:
    """Return the package's imports, read once for all tests."""
    return own_imports()


def room_of(module: str) -> str:
    """Return the name in LEVELS that the module belongs to."""
    parts = module.split(".")[1:] or ["__init__"]
    names = {name for row in LEVELS for name in row}
    found = next((name for n in range(len(parts), 0, -1) if (name := ".".join(parts[:n])) in names), None)
    if found is None:
        raise AssertionError(f"{module} is in no level; add it to LEVELS")
    return found


def level_of(module: str) -> int:
    room = room_of(module)
    return next(number for number, row in enumerate(LEVELS) if room in row)


def upward(items: list[Import]) -> list[str]:
    """Return the imports of the same or a higher level, other than within one name of LEVELS, as `module:line imports
    target`. The types of a tool's results are allowed everywhere: type checkers alone import them.
    """
    return [
        f"{i.module}:{i.line} imports {i.target}"
        for i in items
        if room_of(i.module) != room_of(i.target)
        and level_of(i.target) >= level_of(i.module)
        and not (i.for_types and i.target.startswith(TOOLS))
    ]


def find_cycle(items: list[Import]) -> list[str]:
    """Return one circle of imports, as the modules on it, or an empty list. Imports for type checkers and those inside
    functions count."""
    graph: dict[str, set[str]] = {}
    for i in items:
        if i.module != i.target:
            graph.setdefault(i.module, set()).add(i.target)
    done: set[str] = set()

    def visit(module: str, way: list[str]) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return []
        for target in sorted(graph.get(module, ())):
            if cycle := visit(target, [*way, module]):
                return cycle
        done.add(module)
        return []

    return next((cycle for module in sorted(graph) if (cycle := visit(module, []))), [])


def test_every_module_has_a_level() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.stat().st_size:  # an empty __init__.py imports nothing
            level_of(module_name(path, ROOT))


def test_no_import_goes_upward() -> None:
    assert upward(package_imports()) == []


def test_the_house_imports_no_tool() -> None:
    """It reads their table, `tool_table.py`, and runs without them (`test_without_tools.py`)."""
    found = [i for i in package_imports() if i.target.startswith(TOOLS) and not i.module.startswith(TOOLS)]
    assert [f"{i.module}:{i.line} imports {i.target}" for i in found if not i.for_types] == []
    assert {(i.module, i.target) for i in found} == TYPES_OF_TOOLS


def test_no_import_cycle() -> None:
    assert find_cycle(package_imports()) == []


def test_no_own_module_is_imported_inside_a_function() -> None:
    late = [i for i in package_imports() if i.in_function and (i.module, i.target) not in LAZY]
    assert [f"{i.module}:{i.line} imports {i.target}" for i in late] == []


def test_every_late_import_that_is_listed_is_there() -> None:
    late = {(i.module, i.target): i for i in package_imports() if i.in_function}
    assert LAZY.keys() - late.keys() == set()


def test_instances_do_not_speak_the_wire() -> None:
    """What crosses the process border is known to `ipc`, which has a verb for it."""
    border = "tritonlab.stub._pb_stub.wire"
    found = [i for i in package_imports() if i.module.startswith("tritonlab.engine") and i.target.startswith(border)]
    assert [f"{i.module}:{i.line} imports {i.target}" for i in found] == []


def test_the_stub_imports_only_the_standard_library_numpy_and_itself() -> None:
    foreign = []
    for path in sorted((PACKAGE / "stub").rglob("*.py")):
        for item in imports_of(path, ROOT):
            top = item.target.split(".")[0]
            if item.target.startswith("tritonlab.stub"):
                continue  # a relative import, made absolute above; an absolute one is refused below
            if top not in sys.stdlib_module_names | STUB_MAY_IMPORT | STUB_TOP_LEVEL:
                foreign.append(f"{item.module}:{item.line} imports {item.target}")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith(("import tritonlab", "from tritonlab")):
                foreign.append(f"{path.name}:{number} {line.strip()}")
    assert foreign == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Write a small package of the same shape, to show that each check can fail."""
    for name in ("stub", "core", "server"):
        (tmp_path / "tritonlab" / name).mkdir(parents=True)
        (tmp_path / "tritonlab" / name / "__init__.py").write_text("")
    (tmp_path / "tritonlab" / "__init__.py").write_text("")
    (tmp_path / "tritonlab" / "server" / "model.py").write_text("from ..core import tensor\n")
    (tmp_path / "tritonlab" / "core" / "tensor.py").write_text("")
    return tmp_path


def test_the_checks_see_an_upward_import_a_cycle_and_a_late_import(tree: Path) -> None:
    def found() -> list[Import]:
        return own_imports(tree, tree / "tritonlab")

    assert (upward(found()), find_cycle(found())) == ([], [])
    core = tree / "tritonlab" / "core" / "tensor.py"
    core.write_text("def f():\n    from ..server.model import Model\n")
    assert upward(found()) == ["tritonlab.core.tensor:2 imports tritonlab.server.model"]
    assert find_cycle(found()) == ["tritonlab.core.tensor", "tritonlab.server.model", "tritonlab.core.tensor"]
    assert [i.in_function for i in found() if i.module == "tritonlab.core.tensor"] == [True]
