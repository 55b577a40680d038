"""P5 and P6: numpy and Python, the versions here against the target's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from ....core.source.guards import guarded
from ....core.source.source_file import SourceFile
from ..releases import Release
from .finding import Finding, Prediction
from .moments import outcome_of
from .reads import imported_by
from .subject import Subject, last_name, line_of, version_of, version_text

#: Names that numpy has since 2.0 (and 2.1, 2.2), with their equivalents in numpy 1.
_NUMPY_2 = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "astype": "", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "bitwise_count": "", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "bool": "bool_", "concat": "concatenate",
    "cumulative_prod": "cumprod", "cumulative_sum": "cumsum", "isdtype": "issubdtype", "long": "int64",
    "matrix_transpose": "swapaxes", "matvec": "einsum", "permute_dims": "transpose", "pow": "power", "strings": "char",
    "trapezoid": "trapz", "ulong": "uint64", "unique_all": "unique", "unique_counts": "unique",
    "unique_inverse": "unique", "unique_values": "unique", "unstack": "", "vecdot": "einsum", "vecmat": "einsum",
    "linalg.cross": "cross", "linalg.diagonal": "diagonal", "linalg.matmul": "matmul", "linalg.matrix_norm":
    "linalg.norm", "linalg.matrix_transpose": "swapaxes", "linalg.outer": "outer", "linalg.svdvals": "linalg.svd",
    "linalg.tensordot": "tensordot", "linalg.trace": "trace", "linalg.vecdot": "einsum", "linalg.vector_norm":
    "linalg.norm",
}  # fmt: skip
#: Attributes of arrays and keywords that numpy has since 2.0, with their equivalents in numpy 1.
_METHODS_2 = {
    "mT": "write x.swapaxes(-1, -2)",
    "to_device": "leave it out",
    "__array_namespace__": "use the module numpy",
}
_KEYWORDS_2 = {
    ("reshape", "shape"): "give the shape without its name",
    ("reshape", "copy"): "copy the result if it has to be a copy",
    ("asarray", "copy"): "use numpy.array(x, copy=...)",
    ("unique", "sorted"): "leave it out",
}
_MAKING = ("asarray", "zeros", "ones", "empty", "full", "arange", "linspace", "eye")
_KEYWORDS_2 |= {(name, "device"): "leave it out" for name in _MAKING}
_KEYWORDS_2 |= {(name, "stable"): "use kind='stable'" for name in ("sort", "argsort")}
_KEYWORDS_2 |= {(name, "weights"): "compute it with what numpy 1 has" for name in ("quantile", "percentile")}
#: Libraries whose arrays also have these attributes.
_OTHER_ARRAYS = {"torch", "jax", "cupy", "tensorflow", "array_api_compat", "pandas", "xarray", "dask", "mlx"}
#: The first Python with a module of the standard library, and the first without it.
_SINCE = {"tomllib": (3, 11), "zoneinfo": (3, 9), "graphlib": (3, 9), "compression": (3, 14), "annotationlib": (3, 14)}
_SINCE |= {"string.templatelib": (3, 14), "pathlib.types": (3, 14), "wsgiref.types": (3, 11)}
_GONE = dict.fromkeys(("asynchat", "asyncore", "distutils", "imp", "smtpd"), (3, 12))
_GONE |= dict.fromkeys(
    (
        *("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "nis", "nntplib"),
        *("ossaudiodev", "pipes", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"),
    ),
    (3, 13),
)
#: Names of the standard library by the first Python that has them in its modules.
_NAMES_SINCE = {
    (3, 11): "asyncio.Barrier asyncio.Runner asyncio.TaskGroup asyncio.Timeout asyncio.timeout asyncio.timeout_at "
    "builtins.BaseExceptionGroup builtins.ExceptionGroup contextlib.chdir datetime.UTC enum.EnumCheck enum.EnumType "
    "enum.FlagBoundary enum.ReprEnum enum.StrEnum enum.global_enum enum.member enum.nonmember enum.property "
    "enum.verify hashlib.file_digest http.HTTPMethod inspect.getmembers_static locale.getencoding "
    "logging.getLevelNamesMapping math.cbrt math.exp2 operator.call re.NOFLAG sys.exception typing.LiteralString "
    "typing.Never typing.NotRequired typing.Required typing.Self typing.TypeVarTuple typing.Unpack "
    "typing.assert_never typing.assert_type typing.dataclass_transform typing.get_overloads typing.reveal_type",
    (3, 12): "asyncio.eager_task_factory calendar.Day calendar.Month collections.abc.Buffer inspect.BufferFlags "
    "inspect.markcoroutinefunction itertools.batched logging.getHandlerByName math.sumprod os.path.isjunction "
    "os.path.splitroot random.binomialvariate threading.setprofile_all_threads threading.settrace_all_threads "
    "types.get_original_bases typing.TypeAliasType typing.override",
    (3, 13): "asyncio.QueueShutDown base64.z85decode base64.z85encode builtins.PythonFinalizationError copy.replace "
    "enum.EnumDict glob.translate math.fma os.process_cpu_count pathlib.UnsupportedOperation queue.ShutDown "
    "re.PatternError typing.NoDefault typing.ReadOnly typing.TypeIs typing.get_protocol_members typing.is_protocol "
    "warnings.deprecated",
}
#: Keywords of functions by the first Python that has them.
_KEYWORDS_SINCE = {
    (3, 10): "zip.strict dataclass.slots dataclass.kw_only bisect.key bisect_left.key bisect_right.key insort.key "
    "glob.root_dir",
    (3, 11): "dataclass.weakref_slot glob.include_hidden Popen.process_group run.process_group",
    (3, 12): "TemporaryDirectory.delete NamedTemporaryFile.delete_on_close rmtree.onexc relative_to.walk_up "
    "glob.case_sensitive",
    (3, 13): "batched.strict",
}
_NAME_SINCE = {name: since for since, names in _NAMES_SINCE.items() for name in names.split()}
_KEYWORD_SINCE = {use: since for since, uses in _KEYWORDS_SINCE.items() for use in uses.split()}


def numpy_of_the_target(subject: Subject, release: Release) -> Iterator[Finding]:
    """P5: numpy 2 with a release that works with numpy 1 only."""
    if release.numpy.value != "<2":
        return
    if subject.exported is not None:
        here = subject.exported.packages.get("numpy", "")
    else:
        numpy = next((each.distribution for each in subject.third_party if each.name == "numpy"), None)
        here = numpy.version if numpy is not None else ""
    if here and version_of(here) >= (2,) and subject.environment_value:
        yield Finding(
            "P5",
            f"its environment has numpy {here}, with which Triton {release} answers with outputs of 0 bytes",
            "install numpy<2 into the environment",
            outcome=Prediction.FAILS,
        )
        return
    seen = set()
    for source in subject.sources:
        for name, instead, node in _numpy_2_uses(source, version_of(subject.stub_python or release.python.value or "")):
            if name in seen:
                continue
            seen.add(name)
            yield Finding(
                row="P5",
                sentence=f"it uses {name}, which only numpy 2 has, and Triton {release} works with numpy 1 only",
                remedy=instead,
                source_line=line_of(source, node),
                outcome=outcome_of(subject, source, node),
            )
    if here and version_of(here) >= (2,) and version_of(subject.pins.get("numpy") or here) >= (2,):
        yield Finding(
            "P5",
            f"it ran with numpy {here} here, with which Triton {release} answers with outputs of 0 bytes",
            "deploy it with numpy<2, and check it here with that",
        )


def _numpy_2_uses(source: SourceFile, python: tuple[int, ...]) -> Iterator[tuple[str, str, ast.AST]]:
    """Yield the numpy 2 features in a source (names, methods of arrays and keywords), each with a replacement."""
    for whole, node in _named_in(source, "AttributeError", python=python):
        name = whole.removeprefix("numpy.")
        if name != whole and name in _NUMPY_2:
            yield whole, f"use numpy.{_NUMPY_2[name]}" if _NUMPY_2[name] else "write it with what numpy 1 has", node
    if source.tree is None or not any("numpy" in imported_by(node) for node in ast.walk(source.tree)):
        return
    left_out = guarded(source.tree, "AttributeError", "TypeError", python=python)
    # whose arrays also have these attributes
    imported = (name.partition(".")[0] for node in ast.walk(source.tree) for name in imported_by(node))
    uses_others = not _OTHER_ARRAYS.isdisjoint(imported)
    for node in (node for node in ast.walk(source.tree) if node not in left_out):
        if isinstance(node, ast.Attribute) and node.attr in _METHODS_2 and not uses_others:
            yield f"the attribute .{node.attr} of an array", _METHODS_2[node.attr], node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            function = node.func.attr
            is_of_numpy = ast.unparse(node.func.value) in ("np", "numpy")
            for keyword in node.keywords:
                instead = _KEYWORDS_2.get((function, keyword.arg or ""))
                if instead and (is_of_numpy or (function == "reshape" and not uses_others)):
                    yield f"{function}({keyword.arg}=)", instead, node


def _named_in(source: SourceFile, *errors: str, python: tuple[int, ...] = ()) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names of other modules that a source uses, as `datetime.UTC` or `builtins.ExceptionGroup`, unless the
    source handles their absence, does not run with that Python, or catches one of `errors`."""
    if source.tree is None:
        return
    imported: dict[str, str] = {}
    left_out = guarded(source.tree, *errors, python=python)
    nodes = [node for node in ast.walk(source.tree) if node not in left_out]
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                imported[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}", node
    for node in nodes:
        if isinstance(node, ast.Attribute) and (whole := _dotted(node, imported)):
            yield whole, node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in imported:
            yield f"builtins.{node.id}", node


def _dotted(node: ast.expr, imported: Mapping[str, str]) -> str:
    """Return the name of an attribute of an imported module, empty for others."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, "")
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, imported)):
        return f"{owner}.{node.attr}"
    return ""


def python_of_the_target(subject: Subject, release: Release) -> Iterator[Finding]:
    """P6: the Python of the environment and of its stub, and the model's needs of it."""
    stub = subject.stub_python
    there = stub or release.python.value
    if stub and subject.exported is None:
        yield Finding(
            "P6",
            "its compiled stub has to be of the same release as the server, and nothing in the file says which it is",
            f"take the one of Triton {release}",
        )
    if there is None:
        return
    whose = "the model's own stub" if stub else f"the stub of Triton {release}"
    if subject.environment_value and subject.python and version_of(subject.python) != version_of(there):
        yield Finding(
            "P6",
            f"its environment is of Python {subject.python}, and {whose} of {there}: the environment is ignored",
            f"make the environment with Python {there}, or put a stub of Python "
            f"{version_text(version_of(subject.python))} into the model's directory",
            outcome=Prediction.LOAD,
        )
        return
    for source in subject.sources:
        yield from _too_new(subject, source, version_of(there), f"{whose} is of Python {there}")


def _too_new(subject: Subject, source: SourceFile, there: tuple[int, ...], reason: str) -> Iterator[Finding]:
    remedy = "write it for that Python, or bring an environment of a newer one with a stub that was compiled for it"
    if source.tree is None:  # it cannot be parsed here either
        return
    try:
        ast.parse(source.text, feature_version=there[:2] if len(there) == 2 else None)
    except (SyntaxError, ValueError) as error:
        line = f"{source.path}:{getattr(error, 'lineno', 0) or 0}"
        yield Finding(
            row="P6",
            sentence=f"its syntax is newer ({getattr(error, 'msg', error)}), and {reason}",
            remedy=remedy,
            source_line=line,
            outcome=Prediction.LOAD,
        )
        return
    without = guarded(source.tree, "ImportError", "ModuleNotFoundError", broad_in_functions=True, python=there)
    for node in ast.walk(source.tree):
        for name in imported_by(node) if node not in without else ():
            since, gone = (_of(table, name) for table in (_SINCE, _GONE))
            if since is None and gone is None:
                continue
            if since is not None and since > there:
                text = f"it imports {name}, which Python has since {version_text(since)}, and {reason}"
            elif gone is not None and gone <= there:
                text = f"it imports {name}, which Python has no longer since {version_text(gone)}, and {reason}"
            else:
                continue
            yield Finding("P6", text, remedy, line_of(source, node), outcome_of(subject, source, node))
    seen = set()
    named = _named_in(source, "AttributeError", "ImportError", python=there)
    uses = ((name.removeprefix("builtins."), _NAME_SINCE.get(name, (0,)), node) for name, node in named)
    for name, since, node in (*uses, *_calls_since(source, there)):
        if since > there and name not in seen:
            seen.add(name)
            text = f"it uses {name}, which Python has since {version_text(since)}, and {reason}"
            yield Finding("P6", text, remedy, line_of(source, node), outcome_of(subject, source, node))


def _calls_since(source: SourceFile, python: tuple[int, ...]) -> Iterator[tuple[str, tuple[int, ...], ast.AST]]:
    """Yield the calls whose arguments need a newer Python, with that Python."""
    assert source.tree is not None
    left_out = guarded(source.tree, "TypeError", "ValueError", python=python)
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and node not in left_out)
    for node in calls:
        function = last_name(node.func)
        for keyword in node.keywords:
            if since := _KEYWORD_SINCE.get(f"{function}.{keyword.arg}"):
                yield f"{function}({keyword.arg}=)", since, node
        if function == "fromisoformat" and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and _is_old_isoformat(str(argument.value)):
                continue
            if isinstance(argument, ast.Constant):
                yield f"fromisoformat({argument.value!r})", (3, 11), node


def _is_old_isoformat(text: str) -> bool:
    """Return whether Python 3.10 reads it, too: the text has no Z, no basic form, and three or six digits after the
    point."""
    offset = r"([+-]\d\d:\d\d(:\d\d)?)?"
    return bool(re.fullmatch(rf"\d{{4}}-\d\d-\d\d(.\d\d(:\d\d(:\d\d(\.\d{{3}}(\d{{3}})?)?)?)?{offset})?", text))


def _of(table: Mapping[str, tuple[int, ...]], module: str) -> tuple[int, ...] | None:
    return table.get(module, table.get(module.partition(".")[0]))
