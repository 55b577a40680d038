from __future__ import annotations

import asyncio
import json
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.stub.fake_bridge import FakeBridge
from tritonlab.stub import triton_python_backend_utils
from tritonlab.stub._pb_stub.process.model_context import ModelContext, ModelFailure

STUB = str(Path(triton_python_backend_utils.__file__).parent)
Load = Callable[..., ModelContext]


@pytest.fixture(autouse=True)
def as_in_a_stub() -> Iterator[None]:
    """Take away what `import tritonlab` puts into this process for notebooks: a stub finds the module by its path."""
    names = ("triton_python_backend_utils", "c_python_backend_utils")
    originals = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    finders = list(sys.meta_path)
    ours = [f for f in finders if getattr(f, "__module__", type(f).__module__).startswith("tritonlab")]
    sys.meta_path[:] = [f for f in finders if f not in ours]
    yield
    sys.meta_path[:] = finders
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(originals)


@pytest.fixture
def load(tmp_path: Path, fake_bridge: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Yield a function that imports a model.py as a stub does; this process's modules and paths are as before
    afterwards.
    """
    modules = dict(sys.modules)
    for name in ("1", "1.model"):  # that `load_class` has left, like the directories of models in the path
        sys.modules.pop(name, None)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not Path(path, "1").is_dir()])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(source: str, **files: str) -> ModelContext:
        directory = tmp_path / "m" / "1"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "model.py").write_text(source)
        for name, text in files.items():
            (directory / f"{name}.py").write_text(text)
        context = ModelContext(fake_bridge, STUB)
        context.load("1.model", [str(directory), str(directory.parent)], str(directory / "model.py"))
        return context

    yield load
    for name in set(sys.modules) - before:
        del sys.modules[name]
    sys.modules.update(modules)


def test_the_module_is_named_after_its_version(load: Load, tmp_path: Path) -> None:  # rule 2.1.4
    context = load("NAME, FILE = __name__, __file__\nclass TritonPythonModel: pass")
    assert context._module.NAME == "1.model"
    assert str(tmp_path / "m" / "1" / "model.py") == context._module.FILE


def test_helpers_beside_the_model_and_the_paths_are_found(load: Load, tmp_path: Path) -> None:  # rule 2.1.5
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "helper_above.py").write_text("VALUE = 2")
    context = load("import helper_beside, helper_above\nclass TritonPythonModel: pass", helper_beside="VALUE = 1")
    assert (context._module.helper_beside.VALUE, context._module.helper_above.VALUE) == (1, 2)
    assert sys.path[-3:] == [str(tmp_path / "m" / "1"), str(tmp_path / "m"), STUB]


def test_no_byte_code_is_left_in_the_repository(load: Load, tmp_path: Path) -> None:
    load("import helper_clean\nclass TritonPythonModel: pass", helper_clean="")
    assert not list(tmp_path.rglob("__pycache__"))


def test_tracebacks_show_the_model_as_it_was_imported(load: Load) -> None:
    """A process that still executes shows its own lines when the file has become another."""
    context = load("class TritonPythonModel:\n    def execute(self, requests):\n        1 / 0\n")
    with open(context.model_path, "w") as file:
        file.write("# another\n" * 9)
    context.initialize({})
    with pytest.raises(ZeroDivisionError) as raised:
        context.execute([])
    assert traceback.extract_tb(raised.value.__traceback__)[-1].line == "1 / 0"


def test_the_compiled_names_come_after_the_import(load: Load) -> None:  # rule 1.1.2
    context = load(
        "import triton_python_backend_utils as pb_utils\nEARLY = hasattr(pb_utils, 'Tensor')\n"
        "class TritonPythonModel:\n    def initialize(self, args): self.late = hasattr(pb_utils, 'Tensor')"
    )
    context.initialize({})
    assert (context._module.EARLY, context._model.late) == (False, True)


def test_a_missing_file_is_reported_at_once(fake_bridge: FakeBridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ModelFailure, match=r"^Python model file not found in '/no/such/model.py'$"):  # rule 2.5.6
        ModelContext(fake_bridge, STUB).load("1.model", [], "/no/such/model.py")


# -- auto_complete_config

CONFIG = json.dumps({"name": "m", "max_batch_size": 0, "input": [], "output": []})
#: A module of a model's own, with all that its import needs.
_OWN_UTILS = "def deserialize_bytes_tensor(): ...\ndef serialize_byte_tensor(): ..."


def test_without_the_method_nothing_is_completed(load: Load) -> None:  # rule 2.4.1
    assert load("class TritonPythonModel: pass").auto_complete_config(CONFIG) is None


@pytest.mark.parametrize(
    ("source", "files", "completes"),
    [
        ("class TritonPythonModel: pass", {}, False),
        ("class TritonPythonModel:\n    def auto_complete_config(config): ...", {}, True),
        ("class Base:\n    auto_complete_config = 1\nclass TritonPythonModel(Base): pass", {}, True),
        # the call raises, for a module without a class, and one that finds another module
        ("x = 1", {}, True),
        ("import sys\nsys.modules[__name__] = 1", {}, True),
        ("class TritonPythonModel: pass", {"triton_python_backend_utils": _OWN_UTILS}, True),
    ],
)
def test_the_call_is_left_out_where_it_would_do_nothing(
    load: Load, source: str, files: dict[str, str], completes: bool
) -> None:
    assert load(source, **files).completes_config() is completes


def test_what_it_returns_is_returned(load: Load) -> None:
    context = load(
        """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(4)
        return config
"""
    )
    returned = context.auto_complete_config(CONFIG)
    assert returned is not None
    assert json.loads(returned)["max_batch_size"] == 4


@pytest.mark.parametrize("value", ["None", "{}", "config.as_dict()", "5"])
def test_anything_else_is_refused(load: Load, value: str) -> None:
    context = load(f"class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(config): return {value}")
    with pytest.raises(
        ModelFailure,
        match=r"^auto_complete_config function in model 'm' must return a valid pb.ModelConfig object.$",
    ):
        context.auto_complete_config(CONFIG)


# -- the phases


def test_phases_follow_the_calls(load: Load, fake_bridge: FakeBridge) -> None:  # rule 1.18
    sys.modules["phases"] = phases = ModuleType("phases")
    recorded: list[str] = []
    phases.see = lambda: recorded.append(fake_bridge.phase)  # type: ignore[attr-defined]
    context = load(
        """
from phases import see
see()
class TritonPythonModel:
    def __init__(self): see()
    @staticmethod
    def auto_complete_config(config): see(); return config
    def initialize(self, args): see()
    def execute(self, requests): see(); return []
    def finalize(self): see()
"""
    )
    context.auto_complete_config(CONFIG)
    context.initialize({"a": "b"})
    context.execute([])
    context.finalize()
    assert recorded == ["import", "auto_complete", "construct", "initialize", "execute", "finalize"]


def test_every_method_is_optional(load: Load) -> None:  # rule 2.1.7
    context = load("class TritonPythonModel: pass")
    context.initialize({})
    assert context.is_ready() is None
    with pytest.raises(ModelFailure, match="does not implement `execute` method"):
        context.execute([])
    context.finalize()


def test_finalize_before_initialize_is_nothing(load: Load) -> None:
    load("class TritonPythonModel:\n    def finalize(self): 1 / 0").finalize()


def test_a_model_that_is_an_attribute_error_inside(load: Load) -> None:
    """An AttributeError that execute raises is the author's, not a missing method."""
    context = load("class TritonPythonModel:\n    def execute(self, requests): return requests.nonsense")
    context.initialize({})
    with pytest.raises(AttributeError, match="nonsense"):
        context.execute([])


# -- is_ready


@pytest.mark.parametrize("definition", ["def is_ready(self): return {}", "async def is_ready(self): return {}"])
def test_readiness(load: Load, definition: str) -> None:  # rules 2.7.1, 2.7.2
    for value in (True, False):
        context = load(f"class TritonPythonModel:\n    {definition.format(value)}")
        context.initialize({})
        assert context.is_ready() is value
        del sys.modules["1.model"], sys.modules["1"]
    context = load(f"class TritonPythonModel:\n    {definition.format(1)}")
    context.initialize({})
    with pytest.raises(ModelFailure, match=r"^is_ready\(\) must return a boolean value$"):
        context.is_ready()


# -- coroutines


def test_coroutines_run_on_one_loop_in_a_daemon_thread(load: Load) -> None:  # rules 3.8.1, 3.8.3
    context = load("class TritonPythonModel:\n    async def execute(self, requests): pass")
    context.initialize({})

    async def where() -> tuple[Any, threading.Thread]:
        return asyncio.get_running_loop(), threading.current_thread()

    (first, thread), (second, _) = (context.run(where()).future.result(60) for _ in range(2))
    assert first is second
    assert thread.daemon
    assert thread is not threading.current_thread()
    context.finalize()
    thread.join(60)
    assert not thread.is_alive()
    first.close()
