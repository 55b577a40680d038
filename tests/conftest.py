"""Fixtures for the tests of every folder, and the order of a run."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import kernels
from tests.conformance.reference import ReferenceServer, missing
from tests.serving import await_endings
from tests.timeouts import (  # noqa: F401
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_timeout_set_timer,
    pytest_unconfigure,
)
from tritonlab.ipc.processes.interpreter import Interpreter
from tritonlab.ipc.zygotes.zygote_family import ImportContext, Origin
from tritonlab.ipc.zygotes.zygote_process import ZygoteProcess
from tritonlab.ipc.zygotes.zygotes import Zygotes

# a job in the background of a shell ignores interrupts, and so would each process that a test starts and interrupts
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

kernels.use_sockets()

# how long an example takes says nothing where others use the machine
settings.register_profile("patient", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


#: Two workers run these, each one half after the other: a half shares a JupyterLab, a Chromium and a page in it.
BROWSER = "tests/browser/"
#: The second half begins with this file. Both take as long (November 2026).
SECOND_HALF = "tests/browser/test_failure_pane.py"
#: But this one has a server of its own.
APART = ("test_behind_a_proxy.py",)
#: These wait for the real server and for kernels most of their time, and keep a processor busy only beside others.
WAITING = ("tests/conformance/", "notebooks/")
#: These files take half a minute and more, and begin early: a run that ends with one of them ends on one processor.
LONG = (
    *("tests/test_", "tests/tools/measure/tuning/", "tests/stub/test_interpreters.py", "tests/ipc/test_warm_traps.py"),
    *("tests/tritonserver/test_server.py", "tests/tools/check/test_check.py", "tests/notebook/test_quickstart.py"),
    *(f"tests/tools/deploy/test_{name}.py" for name in ("whole_export", "repository", "placement")),
    *(f"tests/tools/deploy/{name}.py" for name in ("preflight/test_trial", "environment/test_installed")),
    *(f"tests/tools/deploy/preflight/test_{name}.py" for name in ("judge", "pickles")),
    *(f"tests/conformance/test_{name}.py" for name in ("verify", "verdicts", "releases", "sequence")),
    *("tests/frontends/test_file_limit.py", "tests/server/models/test_interrupted_loads.py"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-cases", action="store_true", help="write what the cells of cases/*.md print into them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the browser's tests, which take a worker the longest, and spread those that wait among the rest."""
    places = file_order(dict.fromkeys(item.nodeid.partition("::")[0] for item in items))
    items.sort(key=lambda item: places[item.nodeid.partition("::")[0]])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the twelve thousand tests, which stay, out of garbage collections: each full one took 0.4 s, and IPython's
    reset of a shell between two tests makes one."""
    gc.collect()
    gc.freeze()


def file_order(files: Iterable[str]) -> dict[str, float]:
    """Return the place of each file in a run, from 0 to 1."""
    groups: dict[str, list[str]] = {}
    for file in files:
        begin = next((begin for begin in (BROWSER, *WAITING) if file.startswith(begin)), "")
        groups.setdefault("" if file.endswith(APART) else begin, []).append(file)
    places = dict.fromkeys(groups.pop(BROWSER, ()), 0.0)
    for begin, found in groups.items():
        found.sort(key=lambda file: not file.startswith(LONG))
        end = 0.9 if begin else 1.0  # no run ends with one that others have to wait for
        places |= {file: end * (number + 0.5) / len(found) for number, file in enumerate(found)}
    return places


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler for `--dist loadfile`, which takes the browser's tests as two files."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return BROWSER + str(file >= SECOND_HALF) if file.startswith(BROWSER) and not file.endswith(APART) else file

    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what notebooks of tests remember out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_standbys() -> Iterator[None]:
    """Leave zygotes without standbys, which come half a second after them: tests count processes and descriptors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Zygotes, "stand_by", lambda zygotes, growth: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_zygotes() -> Iterator[None]:
    """Fork the first zygote of each server from one of the session, where a new process would be its equal: that takes
    0.01 s of a processor instead of 0.18 s (November 2026)."""
    start, interpreter = ZygoteProcess.start, Interpreter(sys.executable)
    variables = interpreter.variables(os.environ)
    origin, first = Origin.now(interpreter.executable, variables), start(interpreter, variables)
    first.await_grown()

    def fork(wanted: Interpreter, variables: Mapping[str, str]) -> ZygoteProcess:
        if wanted != interpreter or Origin.now(wanted.executable, variables) != origin or not first.alive:
            return start(wanted, variables)
        return first.grow((), variables, ImportContext.now(variables).directory)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ZygoteProcess, "start", staticmethod(fork))
        yield
    first.end()


@pytest.fixture(scope="module", autouse=True)
def nothing_goes_on_ending() -> Iterator[None]:
    """Fail the module, and not those after it, if a model, an instance or a process of it never came to its end."""
    yield
    await_endings()


@pytest.fixture(scope="session")
def reference_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., ReferenceServer]]:
    """Return a function that starts a real tritonserver on a model repository (explicit model control), with further
    flags as arguments. All are stopped at the end.

    Skips the test if no tritonserver can be had.
    """
    if (why := missing()) is not None:
        pytest.skip(why)
    started: list[ReferenceServer] = []

    def start(repository: Path, arguments: Sequence[str] = ()) -> ReferenceServer:
        started.append(ReferenceServer(repository, tmp_path_factory.mktemp("tritonserver"), arguments))
        return started[-1]

    yield start
    with ThreadPoolExecutor(max(len(started), 1)) as pool:
        list(pool.map(ReferenceServer.stop, started))  # each waits for its models
