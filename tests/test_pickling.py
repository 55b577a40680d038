"""What leaves a process, for a pool or a file: every exception class, without a list of them, and results; and the text
of the refusal of what cannot.
"""

from __future__ import annotations

import concurrent.futures
import copy
import dataclasses
import enum
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
import subprocess
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import tritonlab
from tritonlab.core.explained import Explained, Explanation
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.observe.failure_capsule import FailureCapsule, keep_requests
from tritonlab.core.status import Code, ModelError, RemoteException

#: Modules that cannot be imported here, by the library that they want.
WANT_OTHERS = {"tritonlab.ray"}
TENSOR = Tensor.from_numpy(np.ones(2, np.float32))


def classes() -> list[type[BaseException]]:
    """Return every exception class of the package."""
    modules = {"c_python_backend_utils"}  # and not those that another test may have imported
    for module in pkgutil.walk_packages(tritonlab.__path__, "tritonlab."):
        if module.name not in WANT_OTHERS and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            modules.add(module.name)
    found: set[type[BaseException]] = set()
    todo: list[type[BaseException]] = [BaseException]
    while todo:
        kinds = todo.pop().__subclasses__()
        todo += kinds
        found.update(kind for kind in kinds if kind.__module__ in modules)
    return sorted((kind for kind in found if "_declared" not in vars(kind)), key=str)  # those made for a code: `errors`


def example(hint: Any) -> Any:
    """Return a value of a type, as different as possible from a default."""
    plain = {str: "a text", int: 3, bool: True, object: "x", Any: "x", Path: Path("/a/path"), Tensor: TENSOR}
    if hint in plain:
        return plain[hint]
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return example(next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        return tuple(example(each) for each in arguments if each is not ...)
    if origin in (list, Sequence):
        return [example(arguments[0])]
    if origin in (dict, Mapping):
        return {example(arguments[0]): example(arguments[1])}
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return list(origin)[-1]
    if hint is RemoteException:
        return RemoteException("ValueError", "no", notes=("a note",))
    if isinstance(origin, type) and (dataclasses.is_dataclass(origin) or issubclass(origin, (BaseException, tuple))):
        return origin(**{name: example(each) for name, each in required(origin).items()})
    raise NotImplementedError(f"no example of {hint!r}: add it here")


def required(kind: type[Any], optional: bool = False) -> dict[str, Any]:
    """Return the types of a constructor's parameters by name, of those without a default, or of all."""
    function = inspect.getattr_static(kind, "__init__")
    if not inspect.isfunction(function):  # Python's own, of any values
        return {}
    hints = typing.get_type_hints(function)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {each.name: hints[each.name] for each in parameters if optional or each.default is each.empty}


def errors(kind: type[BaseException]) -> Iterator[BaseException]:
    """Yield errors of a class, one for each code that it takes."""
    values = {name: example(hint) for name, hint in required(kind, optional=True).items()}
    for code in Code if "code" in values and issubclass(kind, Explained) else [None]:
        arguments = values if code is None else {**values, "code": code}
        error = kind(**arguments) if arguments else kind("a text")
        if isinstance(error, ModelError):
            kept, _ = keep_requests([InferenceRequest("m", {"IN": TENSOR})])
            error.capsule = FailureCapsule(1, "m", 1, "m_0_0", 2, "execute", 3, "boom", error.exception, (), kept)
            error.was_killed = True
        error.add_note("a note")
        if isinstance(error, Explained):
            error.explained_by = lambda error: Explanation("Cell 3, line 4", "do this", "a topic")
        yield error


#: By class and number: another process may know others, so that their places in a list are no names.
NAMED = {(str(kind), number): error for kind in classes() for number, error in enumerate(errors(kind))}
ERRORS = [*NAMED.values()]


def facts(error: BaseException) -> dict[str, Any]:
    """Return all that can be seen of an error."""
    attributes = {name: repr(value) for name, value in vars(error).items() if name != "explained_by"}
    seen = {"type": type(error), "args": repr(error.args), "str": str(error), "repr": repr(error), **attributes}
    seen["text"] = traceback.format_exception_only(error)
    if isinstance(error, Explained):
        seen["explained"] = error.to_dict()
    return seen


def fail(name: tuple[str, int]) -> None:
    raise NAMED[name]


WAYS: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {n}": lambda error, n=n: pickle.loads(pickle.dumps(error, n)) for n in range(2, 6)},  # type: ignore[misc]
    "cloudpickle": lambda error: pickle.loads(cloudpickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_comes_back_equal(error: BaseException, way: str) -> None:
    assert facts(WAYS[way](error)) == facts(error)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_every_error_keeps_what_python_keeps_of_its_own(error: BaseException) -> None:
    assert error.__notes__[-1] == "a note" and "a note\n" in traceback.format_exception_only(error)
    with pytest.raises(TypeError, match="note must be a str, not 'int'"):
        error.add_note(1)  # type: ignore[arg-type]
    plain = ValueError("x")
    for each in (plain, error):
        each.__cause__, each.__context__ = KeyError("cause"), KeyError("context")
    kept = [pickle.loads(pickle.dumps(each)) for each in (plain, error)]
    seen = [(type(one.__cause__), type(one.__context__), one.__suppress_context__, one.__traceback__) for one in kept]
    assert seen[0] == seen[1]
    error.__cause__ = error.__context__ = None
    error.__suppress_context__ = False


def test_every_error_comes_out_of_a_pool() -> None:
    """One that is not made again in the parent ends a `multiprocessing.Pool` without an answer."""
    spawn = multiprocessing.get_context("spawn")
    raised: list[BaseException] = []
    with spawn.Pool(1) as pool, concurrent.futures.ProcessPoolExecutor(1, spawn) as executor:
        for name, made in NAMED.items():
            if not isinstance(made, Exception):  # it ends the process, as KeyboardInterrupt does
                continue
            for result in (pool.apply_async(fail, (name,)).get, executor.submit(fail, name).result):
                try:
                    result(60)
                except Exception as error:
                    raised.append(error)
    expected = [facts(error) for error in ERRORS if isinstance(error, Exception) for _ in range(2)]
    assert [facts(error) for error in raised] == expected


def test_none_is_left_out() -> None:
    kinds = set(map(type, ERRORS))
    assert len(kinds) > 90 and sum("_declared" in vars(kind) for kind in kinds) == 3 * len(Code)


FORKS = """
import multiprocessing, os, pathlib, tempfile
import tritonlab
from tests.models import answers
here = pathlib.Path(tempfile.mkdtemp())
m = tritonlab.load("m", answers("x * 2"), inputs=["IN:FP32[1]"], outputs=["OUT:FP32[1]"])
def work(how):
    try:
        return how, str(eval(how))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
print(os.getpid())
with multiprocessing.get_context("fork").Pool(1) as pool:
    later = "tritonlab.default_server().model('m')(IN=[1.0])"
    for how in ("m(IN=[1.0])", later, "m.server.load('m')", "m.statistics()"):
        print(pool.apply_async(work, (how,)).get(60))
    own = "tritonlab.load('own', answers('x * 4'), inputs=['IN:FP32[1]'], outputs=['OUT:FP32[1]'])(IN=[1.0])['OUT']"
    print(m(IN=[1.0])["OUT"], pool.apply(work, (own,))[1])
"""


def test_the_errors_of_a_forked_child_name_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    parent, *texts, last = done.stdout.splitlines()
    whose = f"; this process was forked from {parent}, whose models it cannot use: call tritonlab.serve() there and "
    found = [text.partition(whose) for text in texts]
    unknown = "NotFoundError: Request for unknown model: 'm' is not found"
    unavailable = "InvalidArgumentError: requested model 'm' is not available"
    assert [before for before, _, _ in found] == [unknown, unknown, "UnavailableError: Server is stopping", unavailable]
    assert all(after for *_, after in found)
    assert last == "[2.] [4.]"
