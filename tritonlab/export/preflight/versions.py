"""P5 and P6: numpy and Python, as the model ran here and as the target has them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..releases import Release
from .finding import Finding, Prediction
from .reads import imported_by
from .subject import SourceFile, Subject, line_of, version_of

#: Names that numpy has since 2.0 (and 2.1), with what does the same in numpy 1.
_NUMPY_2 = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "bitwise_count": "", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "concat": "concatenate", "cumulative_prod": "cumprod",
    "cumulative_sum": "cumsum", "isdtype": "issubdtype", "long": "int64", "matrix_transpose": "swapaxes",
    "permute_dims": "transpose", "pow": "power", "strings": "char", "ulong": "uint64", "unique_all": "unique",
    "unique_counts": "unique", "unique_inverse": "unique", "unique_values": "unique", "unstack": "", "vecdot": "einsum",
}  # fmt: skip
#: The first Python that has a module of the standard library.
_SINCE = {"tomllib": (3, 11), "zoneinfo": (3, 9), "graphlib": (3, 9), "compression": (3, 14), "annotationlib": (3, 14)}
_SINCE |= {"string.templatelib": (3, 14), "pathlib.types": (3, 14)}


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
            outcome=Prediction.FAILS,
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
        if source.tree is None:
            continue
        called = {"numpy"} | {
            alias.asname or alias.name
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name == "numpy"
        }
        for node in ast.walk(source.tree):
            names = []
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in called:
                names = [node.attr]
            elif isinstance(node, ast.ImportFrom) and node.module == "numpy":
                names = [alias.name for alias in node.names]
            for name in names:
                if name in _NUMPY_2 and name not in seen:
                    seen.add(name)
                    yield name, source, node


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
        yield from _too_new(source, version_of(there), f"{whose} is of Python {there}")


def _too_new(source: SourceFile, there: tuple[int, ...], reason: str) -> Iterator[Finding]:
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
    for node in ast.walk(source.tree) if source.tree is not None else ():
        for name in imported_by(node):
            since = _SINCE.get(name, _SINCE.get(name.partition(".")[0], (0,)))
            if since > there and not _is_optional(source, node):
                text = f"it imports {name}, which Python has since {'.'.join(map(str, since))}, and {reason}"
                yield Finding(
                    row="P6", sentence=text, remedy=remedy, source_line=line_of(source, node), outcome=Prediction.LOAD
                )


def _is_optional(source: SourceFile, statement: ast.AST) -> bool:
    """Return whether the import is within a `try` that catches its failure."""
    assert source.tree is not None
    tries = (node for node in ast.walk(source.tree) if isinstance(node, ast.Try) and node.handlers)
    return any(statement is part for node in tries for each in node.body for part in ast.walk(each))
