"""tritonlab's pytest plugin, installed with it.

    import triton_python_backend_utils as pb_utils     works in every test module
    triton_server                                      a tritonlab.Server for the test session
    triton_model                                       loads models into it: triton_model("models/add_sub")
    triton_check                                       checks a model: triton_check("models/add_sub", seconds=20)
    @pytest.mark.triton_check(seconds=20)              the options of the checks of a test, class or module
    --triton-simulated-gpus=2                          its GPUs, so that models for GPUs load without any

It lies next to the package, not in it: pytest imports its plugins in every run, and `import tritonlab` would cost each
of them a quarter of a second. Nothing of tritonlab is imported before a test uses it.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from tritonlab import Model, Server
    from tritonlab.tools.check.check_result import CheckResult


class _OnDemand(MetaPathFinder):
    """An importer of tritonlab, for tests that import pb_utils as models do; tritonlab.kernel_modules then finds it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in ("triton_python_backend_utils", "c_python_backend_utils"):
            return None
        finder = importlib.import_module("tritonlab.kernel_modules").KernelModules()
        spec: ModuleSpec | None = finder.find_spec(fullname)
        return spec


sys.meta_path.append(_OnDemand())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tritonlab").addoption(
        "--triton-simulated-gpus",
        type=int,
        default=0,
        metavar="N",
        help="how many GPUs triton_server simulates in the place of this machine's",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "triton_check(**options): the options of triton_check, those of Model.check")


#: The markers `triton_check` of a test that reach no use of the fixture, by the name of what they stand at.
_UNUSED = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)  # before `-k` leaves tests of a class out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Find markers `triton_check` without a test that uses the fixture: they would check nothing."""
    marked: dict[Any, list[pytest.Item]] = {}
    for item in items:
        for node, _ in item.iter_markers_with_node("triton_check"):
            marked.setdefault(node, []).append(item)
    for node, found in marked.items():
        if not any("triton_check" in getattr(item, "fixturenames", ()) for item in found):
            for item in found:
                item.stash[_UNUSED] = node.name


def pytest_runtest_setup(item: pytest.Item) -> None:
    if name := item.stash.get(_UNUSED, ""):
        pytest.fail(
            f"@pytest.mark.triton_check at {name} checks nothing: it sets options of the fixture `triton_check`, which "
            'no test there takes; write `def test_…(triton_check): triton_check("models/NAME")`',
            pytrace=False,
        )


@pytest.fixture(scope="session")
def triton_server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Server]:
    """Return a `tritonlab.Server` without models; its models run in stub processes and end with the session."""
    tritonlab = importlib.import_module("tritonlab")
    options = {"model_control_mode": "explicit", "simulated_gpus": pytestconfig.getoption("triton_simulated_gpus")}
    with tritonlab.Server(tmp_path_factory.mktemp("models"), **options) as server:
        yield server


@pytest.fixture
def triton_model(triton_server: Server) -> Iterator[Callable[..., Model]]:
    """Load a model as `tritonlab.load` does, and unload it after the test.

    `triton_model("add_sub", source, config=...)` takes a class, a text, or the path of a model.py or model directory;
    `triton_model("models/add_sub")` a model directory alone. Raises what `tritonlab.load` raises.
    """
    with importlib.import_module("tritonlab.testing").model_loader(triton_server) as load:
        yield load


@pytest.fixture
def triton_check(triton_model: Callable[..., Model], request: pytest.FixtureRequest) -> Callable[..., CheckResult]:
    """Check a model and fail the test with what is found.

    `triton_check("models/add_sub", seconds=20)` takes a model of `triton_model`, or the arguments of `triton_model` to
    load one. The options are the ones of `Model.check`; the marker `triton_check` gives defaults for the call. Returns
    the result; a test in which nothing could be checked fails, too.
    """
    marked = [mark.kwargs for mark in request.node.iter_markers("triton_check")]

    def check(model: Any, **options: Any) -> CheckResult:
        __tracebackhide__ = True
        subject = model if hasattr(model, "check") else triton_model(model)
        for kwargs in marked:
            options = {**kwargs, **options}
        result: CheckResult = subject.check(**options)
        if not result.ok:
            pytest.fail(result.text(), pytrace=False)
        return result

    return check
