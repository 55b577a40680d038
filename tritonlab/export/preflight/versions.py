"""P5 and P6: numpy and Python, as the model ran here and as the target has them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ..releases import Release
from .finding import Finding, Prediction
from .guards import guarded
from .moments import outcome_of
from .reads import imported_by
from .subject import SourceFile, Subject, line_of, version_of

#: Names that numpy has since 2.0 (and 2.1, 2.2), with what does the same in numpy 1.
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
#: The first Python that has a module of the standard library, and the first that has it no longer.
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
#: Names of the standard library by the first Python that has them: what its modules list there and not before.
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
_NAME_SINCE = {name: since for since, names in _NAMES_SINCE.items() for name in names.split()}


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
    for name, source, node in _numpy_2_names(subject):
        instead = f"use numpy.{_NUMPY_2[name]}" if _NUMPY_2[name] else "write it with what numpy 1 has"
        yield Finding(
            row="P5",
            sentence=f"it uses numpy.{name}, which only numpy 2 has, and Triton {release} works with numpy 1 only",
            remedy=instead,
            source_line=line_of(source, node),
            outcome=outcome_of(subject, source, node),
        )
    if here and version_of(here) >= (2,):
        yield Finding(
            "P5",
            f"it ran with numpy {here} here, with which Triton {release} answers with outputs of 0 bytes",
            "deploy it with numpy<2, and check it here with that",
        )


def _numpy_2_names(subject: Subject) -> Iterator[tuple[str, SourceFile, ast.AST]]:
    seen = set()
    for source in subject.sources:
        for whole, node in _named_in(source, "AttributeError"):
            name = whole.removeprefix("numpy.")
            if name != whole and name in _NUMPY_2 and name not in seen:
                seen.add(name)
                yield name, source, node


def _named_in(source: SourceFile, *errors: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names of other modules that a source uses, as `datetime.UTC` or `builtins.ExceptionGroup`, but not
    where it does without them or one of `errors` is caught."""
    if source.tree is None:
        return
    imported: dict[str, str] = {}
    left_out = guarded(source.tree, *errors)
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
    """P6: the Python of the environment and of the stub that runs it, and what the model needs of it."""
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
            f"{'.'.join(map(str, version_of(subject.python)))} into the model's directory",
            outcome=Prediction.LOAD,
        )
        return
    for source in subject.sources:
        yield from _too_new(subject, source, version_of(there), f"{whose} is of Python {there}")


def _too_new(subject: Subject, source: SourceFile, there: tuple[int, ...], reason: str) -> Iterator[Finding]:
    remedy = "write it for that Python, or bring an environment of a newer one with a stub that was compiled for it"
    try:
        ast.parse(source.text, feature_version=there[:2] if len(there) == 2 else None)
    except (SyntaxError, ValueError) as error:
        if source.tree is not None:
            line = f"{source.path}:{getattr(error, 'lineno', 0) or 0}"
            yield Finding(
                row="P6",
                sentence=f"its syntax is newer ({getattr(error, 'msg', error)}), and {reason}",
                remedy=remedy,
                source_line=line,
                outcome=Prediction.LOAD,
            )
        return
    if source.tree is None:
        return
    without = guarded(source.tree, "ImportError", "ModuleNotFoundError", broad_in_functions=True)
    for node in ast.walk(source.tree):
        for name in imported_by(node) if node not in without else ():
            since, gone = (_of(table, name) for table in (_SINCE, _GONE))
            if since is None and gone is None:
                continue
            if since is not None and since > there:
                text = f"it imports {name}, which Python has since {_version(since)}, and {reason}"
            elif gone is not None and gone <= there:
                text = f"it imports {name}, which Python has no longer since {_version(gone)}, and {reason}"
            else:
                continue
            yield Finding("P6", text, remedy, line_of(source, node), outcome_of(subject, source, node))
    yield from _names_too_new(subject, source, there, remedy=remedy, reason=reason)


def _names_too_new(
    subject: Subject, source: SourceFile, there: tuple[int, ...], *, remedy: str, reason: str
) -> Iterator[Finding]:
    """Yield the names of the standard library that a Python lacks, each once."""
    seen = set()
    for name, node in _named_in(source, "AttributeError", "ImportError"):
        since = _NAME_SINCE.get(name, (0,))
        if since > there and name not in seen:
            seen.add(name)
            text = f"it uses {name.removeprefix('builtins.')}, which Python has since {_version(since)}, and {reason}"
            yield Finding("P6", text, remedy, line_of(source, node), outcome_of(subject, source, node))


def _of(table: Mapping[str, tuple[int, ...]], module: str) -> tuple[int, ...] | None:
    return table.get(module, table.get(module.partition(".")[0]))


def _version(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
