"""Traps for a fork: whatever a model does at import, it gets the result of a fresh interpreter. Each case is loaded by
a server that forks zygotes and by one that starts every stub itself, and what it saw must be the same.

The packages are in a directory `site-packages` on PYTHONPATH. `heavy` writes down each time it is imported, which says
whether it was.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.serving import Lab, config, eventually, instances, open_descriptors, warm_pids
from tritonlab.server.api.model import Model

HEAVY = """
import os, sys, warnings
try:
    import extra
except ImportError:
    extra = None
VARIABLE = os.environ.get("HEAVY")
LIMIT = __import__("resource").getrlimit(__import__("resource").RLIMIT_NOFILE)
LOCALE = __import__("locale").setlocale(__import__("locale").LC_ALL)
METHOD = __import__("multiprocessing").get_start_method(allow_none=True)
FILTERS = len(warnings.filters)
EXTRA = getattr(extra, "WHOSE", None)
DIRECTORY = os.getcwd()
os.environ["SET_BY_HEAVY"] = "yes"
print("heavy says hello")
descriptor = os.open(os.path.join(os.path.dirname(__file__), "imported"), os.O_WRONLY | os.O_APPEND)
os.write(descriptor, b"x")
os.close(descriptor)
"""

#: A thread as jemalloc has it, which handles forks itself.
ALLOCATOR = """
import ctypes, threading, time
named = threading.Event()
def clean():
    ctypes.CDLL(None).prctl(15, b"jemalloc_bg_thd", 0, 0, 0)
    named.set()
    time.sleep(999)
threading.Thread(target=clean, daemon=True).start()
named.wait()
"""

#: Waits until a file that it makes is gone.
SLOW = """
import os, time
begun = os.path.join(os.path.dirname(__file__), "slow.begun")
open(begun, "w").close()
while os.path.exists(begun):
    time.sleep(0.005)
"""

PACKAGES = {
    "heavy.py": HEAVY,
    "light.py": "import heavy\nheavy.LIGHT = True\n",
    "deep.py": "import heavy\nfrom spread import part\nWHOSE = part.WHOSE\n",
    "spread/part.py": "WHOSE = 'installed'\n",
    "broken.py": "import heavy\nraise ImportError('broken on purpose')\n",
    "threads.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n",
    "sockets.py": "import socket\nkept = socket.socketpair()\n",
    "chdir.py": "import os\nos.chdir('/')\n",
    "paths.py": "import sys\nsys.path.append('/nowhere')\n",
    "temporary.py": "import tempfile, atexit, shutil\nD = tempfile.mkdtemp()\natexit.register(shutil.rmtree, D)\n",
    "crash.py": "import os\nos.kill(os.getpid(), 11) if os.environ.get('CRASH') else None\n",
    "handlers.py": "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n",
    "shares.py": "import multiprocessing\nLOCK = multiprocessing.Lock()\n",
    "alarms.py": "import signal\nsignal.signal(14, signal.SIG_IGN)\nsignal.setitimer(signal.ITIMER_REAL, 999)\n",
    "forks.py": "import os, sys\nos.register_at_fork(before=lambda: print('forks', file=sys.stderr))\n",
    "allocator.py": ALLOCATOR,
}

TELLS = """
import json as _json
import numpy as _np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        text = _json.dumps(see(), sort_keys=True, default=repr)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", _np.array([text.encode()], dtype=object))])]
"""
CONFIG = config("", "TEXT STRING 1")


class Sides:
    """A server with zygotes and one without, on repositories of their own."""

    def __init__(self, directory: Path, site: Path) -> None:
        self._count = site / "imported"
        for name in ("warm", "cold"):
            (directory / name).mkdir()
        self.warm = Lab(directory / "warm")
        self.cold = Lab(directory / "cold", warm=0)

    def imports(self) -> int:
        return len(self._count.read_bytes())

    def load(self, lab: Lab, source: str, methods: str = "", **files: str) -> Model:
        model = TELLS.replace("    def execute", f"{methods}    def execute")
        return lab.load("m", textwrap.dedent(source) + model, CONFIG, **files)

    def same(self, source: str, methods: str = "", **files: str) -> tuple[Any, bool]:
        """Return what both saw, and whether the warm one had imported `heavy` before; the source defines `see`."""
        for lab in (self.warm, self.cold):
            shutil.rmtree(lab.repository / "m", ignore_errors=True)  # files of the test before
        expected = saw(self.load(self.cold, source, methods, **files))
        self.load(self.warm, source, methods, **files)
        before = self.imports()
        found = saw(self.load(self.warm, source, methods, **files))
        if isinstance(found, dict):
            different = {key: (value, expected[key]) for key, value in found.items() if value != expected[key]}
            assert different == {}
        assert found == expected
        return found, self.imports() == before

    def logged(self) -> list[str]:
        """Return what the server has logged of the model that `warm` loaded last."""
        return [record.text for record in self.warm.server.logs("m") if record.stream == "server"]


def saw(model: Model) -> Any:
    return json.loads(model()["TEXT"][0])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("env") / "site-packages"
    directory.mkdir()
    for name, text in PACKAGES.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    (directory / "imported").touch()
    return directory


@pytest.fixture(scope="module")
def sides(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site))
        found = Sides(tmp_path_factory.mktemp("repositories"), site)
        yield found
        found.warm.server.stop()
        found.cold.server.stop()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, empty; without the variable that changes from test to test."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SEES = """
def see():
    return [heavy.VARIABLE, heavy.LIMIT, heavy.LOCALE, heavy.METHOD, heavy.FILTERS, heavy.EXTRA, heavy.DIRECTORY]
"""


def test_an_import_is_made_once_for_all(sides: Sides) -> None:
    found, warm = sides.same(f"import heavy\n{SEES}")
    assert warm
    assert found[-1] == os.getcwd()


@pytest.mark.parametrize(
    "trap",
    [
        "import os\nos.environ['HEAVY'] = 'by the model'",
        "import sys\nsys.path.insert(0, '/tmp')",
        "import warnings\nwarnings.filterwarnings('error')",
        "import locale\nlocale.setlocale(locale.LC_ALL, 'C.UTF-8')",
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (500, 1000))",
        "import multiprocessing\nmultiprocessing.set_start_method('spawn')",
        "import os\nos.chdir('/')",
        "class Sets:\n    __import__('os').environ['HEAVY'] = 'in a class'",
        "import sets",
    ],
)
def test_what_a_model_changes_before_an_import(sides: Sides, trap: str) -> None:
    _, warm = sides.same(f"{trap}\nimport heavy\n{SEES}", **{"1__sets.py": "import os\nos.environ['HEAVY'] = 'x'\n"})
    assert not warm
    (why,) = (each["imports_again"] for each in sides.warm.server.model("m").instances())
    assert why.startswith("'heavy', because ")
    assert f"The model repeats imports at every start: {why}." in sides.logged()


def test_a_change_after_the_import_is_no_trap(sides: Sides) -> None:
    source = f"import heavy\nimport os\nos.environ['HEAVY'] = 'late'\n{SEES}"
    assert sides.same(source)[1]


INITIALIZE = "    def initialize(self, args):\n        global heavy\n"
IN_INITIALIZE = f"import os, sys\nBEFORE = None\n{SEES.replace('[', '[BEFORE, ')}"


def test_an_import_in_initialize(sides: Sides) -> None:
    auto = "    @staticmethod\n    def auto_complete_config(config):\n        return config\n"
    for more in ("", auto):
        assert sides.same(IN_INITIALIZE, f"{more}{INITIALIZE}        import heavy\n")[1]


@pytest.mark.parametrize(
    "methods",
    [
        f"{INITIALIZE}        os.environ['HEAVY'] = args['model_name']\n        import heavy\n",
        f"{INITIALIZE}        globals()['BEFORE'] = 'heavy' in sys.modules\n        import heavy\n",
        f"    def __init__(self): os.environ['HEAVY'] = 'x'\n{INITIALIZE}        import heavy\n",
        f"    def auto_complete_config(c): os.putenv('HEAVY', 'x'); return c\n{INITIALIZE}        import heavy\n",
    ],
)
def test_what_a_model_does_before_an_import_in_initialize(sides: Sides, methods: str) -> None:
    _, warm = sides.same(IN_INITIALIZE, methods)
    assert not warm
    assert sides.warm.server.model("m").instances()[0]["imports_again"].startswith("'heavy', because model.py, line ")


def test_a_module_is_not_there_before_it_is_imported(sides: Sides) -> None:
    source = "import sys\nBEFORE = 'heavy' in sys.modules\nimport heavy\ndef see(): return BEFORE\n"
    assert sides.same(source) == (False, False)
    assert sides.same("import sys\ndef see(): return 'heavy' in sys.modules\n")[0] is False


def test_a_file_of_that_name_in_the_working_directory(sides: Sides, here: Path) -> None:
    source = "import heavy\ndef see(): return getattr(heavy, 'WHOSE', 'installed')\n"
    assert sides.same(source) == ("installed", True)
    (here / "heavy.py").write_text("WHOSE = 'mine'\n")
    assert sides.same(source)[0] == "mine"
    (here / "heavy.py").unlink()
    assert sides.same(source) == ("installed", True)


def test_a_file_in_the_working_directory_that_an_installed_module_takes(sides: Sides, here: Path) -> None:
    source = f"import heavy\n{SEES}"
    assert sides.same(source)[1]
    (here / "extra.py").write_text("WHOSE = 'mine'\n")
    assert sides.warm.server.model("m").instances()[0]["imports_again"] == ""
    found, warm = sides.same(source)
    assert (found[5], warm) == ("mine", False)
    assert any(f"all, because {here / 'extra.py'} may be what one of them imports" in text for text in sides.logged())


def test_files_that_are_no_modules(sides: Sides, here: Path) -> None:
    """Programs leave such names behind; a directory without `__init__.py` gives way to an installed module."""
    for name in ("extra.log", "extra-1.py", "heavy.txt"):
        (here / name).touch()
    for name in ("extra.chromium.X1", "heavy", "spread.d"):
        (here / name).mkdir()
    source = f"import heavy\nimport deep\n{SEES}"
    assert sides.same(source)[1]


def test_a_directory_makes_a_missing_module(sides: Sides, here: Path) -> None:
    source = "import heavy\nimport sys\ndef see(): return 'extra' in sys.modules\n"
    assert sides.same(source) == (False, True)
    assert sides.same(source, **{"1__extra__data.txt": ""}) == (True, False)
    assert sides.same(source) == (False, True)
    (here / "extra").mkdir()
    assert sides.same(source) == (True, False)
    assert any(f"{here / 'extra'} may be what one of them imports" in text for text in sides.logged())


def test_a_directory_adds_to_an_installed_package_without_init(sides: Sides, here: Path) -> None:
    source = "import deep\ndef see(): return deep.WHOSE\n"
    assert sides.same(source) == ("installed", True)
    (here / "spread").mkdir()
    (here / "spread" / "part.py").write_text("WHOSE = 'mine'\n")
    assert sides.same(source) == ("mine", False)


def test_a_file_beside_the_model_of_a_name_that_an_installed_module_finds(sides: Sides) -> None:
    """Python looks beside the model last."""
    source = "import deep\ndef see(): return hasattr(deep.heavy, 'EXTRA')\n"
    assert sides.same(source, **{"1__heavy.py": ""}) == (True, True)


def test_a_file_beside_the_model_that_an_installed_module_takes(sides: Sides) -> None:
    found, warm = sides.same(f"import heavy\n{SEES}", **{"1__extra.py": "WHOSE = 'mine'\n"})
    assert (found[5], warm) == ("mine", False)


def test_a_file_beside_the_model_of_an_installed_name(sides: Sides) -> None:
    """The installed one is imported, as ever."""
    source = "import light\nimport heavy\ndef see(): return light.__file__\n"
    found, _ = sides.same(source, **{"1__light.py": "import os\nos.environ['HEAVY'] = 'x'\n"})
    assert found.endswith("site-packages/light.py")


def test_helpers_beside_the_model(sides: Sides) -> None:
    source = "from helper import heavy\nimport light\ndef see(): return [heavy.VARIABLE, heavy.LIGHT]\n"
    assert sides.same(source, **{"1__helper.py": "import heavy\n"}) == ([None, True], True)


def test_an_import_taken_out_leaves_nothing(sides: Sides) -> None:
    source = "import sys\ndef see(): return [hasattr(heavy, 'LIGHT'), 'light' in sys.modules]\n"
    assert sides.same(f"import heavy\nimport light\n{source}")[0] == [True, True]
    assert sides.same(f"import heavy\n{source}") == ([False, False], True)


EVERYTHING = """
import heavy

def see():
    import atexit, gc, locale, multiprocessing, resource, signal, sys, threading, warnings
    import faulthandler, random
    main = threading.main_thread()
    return {
        "modules": {name: 1 for name in sys.modules if name != "1"},
        "variables": dict(os.environ),
        "flags": sys.flags,
        "argv": sys.argv,
        "path": [p.replace("/cold/", "/warm/") for p in sys.path],
        "hooks": [len(sys.path_hooks), [type(f).__name__ for f in sys.meta_path], sys.displayhook, sys.excepthook],
        "main": [sys.modules["__main__"].__name__, sys.modules["__main__"].__file__, sys.modules["__main__"].__spec__],
        "names": sorted(vars(sys.modules["__main__"])),
        "handlers": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "threads": sorted(t.name for t in threading.enumerate()),
        "main thread": [main.ident == threading.get_ident(), main.native_id == os.getpid(), main.name],
        "process": [os.getsid(0) == os.getpid() == os.getpgid(0), multiprocessing.current_process().name],
        "parent": multiprocessing.parent_process(),
        "filters": [str(f) for f in warnings.filters],
        "limits": [resource.getrlimit(n) for n in range(16)],
        "umask": [os.umask(18), os.umask(18)],
        "directory": os.getcwd(),
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(3)),
        "inheritable": [n for n in range(3, 30) if _inheritable(n)],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "interval": [sys.getswitchinterval(), sys.getrecursionlimit(), sys.dont_write_bytecode],
        "streams": [sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering, sys.stdin.read()],
        "faults": faulthandler.is_enabled(),
        "locale": locale.setlocale(locale.LC_ALL),
        "affinity": sorted(os.sched_getaffinity(0)),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "trace": [sys.gettrace(), sys.getprofile(), threading._profile_hook],
    }

def _inheritable(number):
    try:
        return os.get_inheritable(number)
    except OSError:
        return False

import os
"""


def test_all_that_a_process_has_is_the_same(sides: Sides) -> None:
    found, warm = sides.same(EVERYTHING)
    assert warm
    assert found["inheritable"] == []
    assert found["variables"]["SET_BY_HEAVY"] == "yes"


def test_what_an_import_prints_is_in_each_log(sides: Sides) -> None:
    for lab in (sides.cold, sides.warm):
        for _ in range(2):
            model = sides.load(lab, "import heavy\nprint('and the model')\ndef see(): pass\n")
            pid = instances(model)[0].pid
            printed = [record.text for record in model.logs() if record.pid == pid and record.stream == "stdout"]
            assert printed == ["heavy says hello", "and the model"]


def test_random_numbers_are_those_of_no_other_instance(sides: Sides) -> None:
    source = """
    import heavy
    import random, numpy.random

    def see():
        return [random.random(), float(numpy.random.rand()), list(__import__("os").urandom(4))]
    """
    runs = [saw(sides.load(lab, source)) for lab in (sides.warm, sides.warm, sides.cold)]
    for numbers in zip(*runs, strict=True):
        assert len({str(number) for number in numbers}) == 3


#: Stand-ins for torch, and whether a stub is forked with them.
STAND_INS = {
    "empty": ("Tensor = type('Tensor', (), {})", True),
    "without a seed": ("default_generator = object()", False),
    "raising": ("def __getattr__(name): raise RuntimeError(name)", True),
    "an object": ("import sys\nclass T:\n    __slots__ = ()\nsys.modules['torch'] = T()", True),
    "an object that raises": (
        "import sys\nclass T:\n    def __getattribute__(self, n): raise RuntimeError(n)\nsys.modules['torch'] = T()",
        True,
    ),
    "an odd package": ("__path__ = 5", True),
    "raising when it is seeded": ("class default_generator:\n    @staticmethod\n    def seed(): 1 / 0", False),
    "in the place of numpy.random": ("import sys, types\nsys.modules['numpy.random'] = types.ModuleType('x')", True),
    "in the place of stdout": ("import sys\nsys.stdout = sys.stderr = object()", True),
}


@pytest.mark.parametrize("case", STAND_INS)
def test_a_stand_in_for_torch(sides: Sides, site: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, forked = STAND_INS[case]
    monkeypatch.setenv("PYTHON_STAND_IN", case)  # begins with zygotes that remember no other
    (site / "torch.py").write_text(text)
    try:
        found, warm = sides.same("import heavy\nimport torch\nimport sys\ndef see(): return 'torch' in sys.modules\n")
    finally:
        (site / "torch.py").unlink()
    assert (found, warm) == (True, True)
    (why,) = (each["imports_again"] for each in sides.warm.server.model("m").instances())
    assert why == ("" if forked else "'torch', because it fails in a fork")


def test_torch_draws_other_numbers_in_each_instance(sides: Sides) -> None:
    pytest.importorskip("torch")
    source = "import torch\ndef see(): return [torch.initial_seed(), torch.rand(3).tolist()]\n"
    runs = [saw(sides.load(sides.warm, source)) for _ in range(3)]
    assert len({str(each) for each in runs}) == 3


def test_torch_computes_in_a_fork(sides: Sides) -> None:
    pytest.importorskip("torch")
    source = """
    import torch

    def see():
        x = torch.arange(90000, dtype=torch.float64).reshape(300, 300)
        model = torch.nn.Linear(4, 2)
        loss = model(torch.ones(3, 4)).sum()
        loss.backward()
        return [float((x @ x.T).sum()), torch.get_num_threads(), model.bias.grad.tolist(), torch.cuda.is_available()]
    """
    sides.same(source)


def test_functions_at_exit_run_once_in_each(sides: Sides, here: Path) -> None:
    at_exit = f"import atexit\natexit.register(lambda: open({str(here / 'exits')!r}, 'a').write('x'))\n"
    for lab, count in ((sides.warm, 1), (sides.cold, 2)):
        sides.load(lab, f"import heavy\n{at_exit}def see(): pass\n")
        lab.server.unload("m", wait=True)
        assert len((here / "exits").read_text()) == count


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("threads", "it starts threads"),
        ("sockets", "it opens socket:"),
        ("chdir", "it changes the working directory"),
        ("paths", "it changes sys.path"),
        ("temporary", "it makes temporary files"),
        ("shares", "it shares memory"),
        ("alarms", "it sets a timer"),
        ("broken", "broken on purpose"),
    ],
)
def test_what_no_fork_would_have_is_left_out(sides: Sides, module: str, why: str) -> None:
    source = f"""
    import light
    try:
        import {module}
    except ImportError as error:
        pass
    import os, threading

    def see():
        return [os.getcwd(), threading.active_count(), light.__name__]
    """
    assert sides.same(source)[1]  # what comes before it is not
    assert any(f"'{module}', because " in text and why in text for text in sides.logged())


def test_a_thread_of_an_allocator_is_no_trap(sides: Sides) -> None:
    """pyarrow has it, and so pandas: without it the stub frees memory itself."""
    source = "import heavy\nimport allocator\ndef see(): return 1\n"
    assert sides.same(source)[1]
    assert "heavy, allocator" in sides.warm.server.core.pool.memory().imports.values()


def test_what_a_module_prints_at_forks_is_not_in_the_log(sides: Sides) -> None:
    source = "import heavy\nimport forks\ndef see(): return 1\n"
    for lab in (sides.cold, sides.warm):
        model = sides.load(lab, source)
        assert [record.text for record in model.logs() if record.text == "forks"] == []


def test_a_module_that_crashes_at_import(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASH", "1")
    source = "import crash\ndef see(): pass\n"
    texts = []
    for lab in (sides.warm, sides.cold):
        lab.write("m", source + TELLS, CONFIG)
        with pytest.raises(Exception, match=r"Stub process 'm_[a-z0-9_]*' is not healthy") as raised:
            lab.server.load("m")
        texts.append(str(raised.value))
    monkeypatch.delenv("CRASH")
    assert texts[0] == texts[1]
    assert sides.same(source)[0] is None


def test_signal_handlers_of_a_module(sides: Sides) -> None:
    source = "import heavy\nimport handlers\nimport signal\ndef see(): return str(signal.getsignal(10))\n"
    assert sides.same(source) == ("1", True)


# -- when the world changes


def test_a_package_that_changes(sides: Sides, site: Path) -> None:
    source = "import heavy\ndef see(): return getattr(heavy, 'VERSION', 1)\n"
    assert sides.same(source) == (1, True)
    (site / "heavy.py").write_text(HEAVY + "VERSION = 2\n")
    try:
        assert saw(sides.load(sides.warm, source)) == 2
        assert sides.same(source) == (2, True)
    finally:
        (site / "heavy.py").write_text(HEAVY)


def test_a_package_that_changes_before_another_import_is_added(sides: Sides, site: Path) -> None:
    """The zygote that has the first would grow the one for both."""
    source = "import heavy\n{}def see(): return getattr(heavy, 'VERSION', 1)\n"
    assert sides.same(source.format("")) == (1, True)
    (site / "heavy.py").write_text(HEAVY + "VERSION = 2\n")
    try:
        assert sides.same(source.format("import light\n")) == (2, True)
    finally:
        (site / "heavy.py").write_text(HEAVY)


def test_a_package_that_changes_while_it_is_imported(sides: Sides, site: Path) -> None:
    """As `%pip install` in the first cell does, while a new kernel imports what the last one needed."""
    (site / "slow.py").write_text(SLOW)
    source = "import heavy\nimport slow\ndef see(): return getattr(slow, 'VERSION', 1)\n"
    loading = threading.Thread(target=sides.load, args=(sides.warm, source))
    loading.start()
    try:
        eventually((site / "slow.begun").exists)
        (site / "slow.py").write_text("VERSION = 2\n")
        (site / "slow.begun").unlink()
        loading.join(60)
        assert sides.same(source) == (2, True)
    finally:
        (site / "slow.py").unlink()


def test_a_package_that_is_installed(sides: Sides, site: Path) -> None:
    source = f"import heavy\n{SEES}"
    assert sides.same(source)[1]
    (site / "extra.py").write_text("WHOSE = 'installed'\n")
    try:
        assert saw(sides.load(sides.warm, source))[5] == "installed"
    finally:
        (site / "extra.py").unlink()
    assert sides.same(source)[0][5] is None


def test_other_imports_after_a_package_is_installed(sides: Sides, site: Path) -> None:
    """No zygote has them, and the one to grow it from is stale."""
    assert sides.same(f"import heavy\n{SEES}")[1]
    (site / "extra.py").write_text("WHOSE = 'installed'\n")
    try:
        found, warm = sides.same("import light\nimport extra\ndef see(): return extra.WHOSE\n")
        assert (found, warm) == ("installed", True)
    finally:
        (site / "extra.py").unlink()


def test_only_the_one_to_blame_is_left_out(sides: Sides) -> None:
    """Also if what comes before it has a zygote already."""
    known = "import heavy\nimport light\n"
    assert sides.same(f"{known}def see(): return 1\n")[1]
    assert sides.same(f"{known}import handlers\nimport threads\ndef see(): return 2\n")[1]
    assert any("'threads', because it starts threads" in text for text in sides.logged())
    assert "heavy, light, handlers" in sides.warm.server.core.pool.memory().imports.values()


def test_a_variable_that_changes(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"import heavy\n{SEES}"
    for value in ("one", "two"):
        monkeypatch.setenv("HEAVY", value)
        found, warm = sides.same(source)
        assert (found[0], warm) == (value, True)


@pytest.mark.parametrize(
    ("name", "value"), [("TZ", "Asia/Tokyo"), ("LC_ALL", "C"), ("LANG", "C"), ("HOME", "/nowhere")]
)
def test_a_variable_that_is_read_when_a_process_starts(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    source = """
    import heavy
    import locale, site, sys, time

    def see():
        reads = [time.strftime("%H %Z", time.localtime(0)), time.tzname, locale.setlocale(locale.LC_ALL)]
        return [*reads, sys.getfilesystemencoding(), sys.flags, site.getusersitepackages(), sys.path[1:4]]
    """
    sides.same(source)
    monkeypatch.setenv(name, value)
    assert sides.same(source)[1]


def test_another_working_directory(sides: Sides, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "other").mkdir()
    monkeypatch.chdir(here / "other")
    found, warm = sides.same(f"import heavy\n{SEES}")
    assert (found[6], warm) == (str(here / "other"), True)


def test_other_limits(sides: Sides) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard) if soft else (0, 0))
    umask = os.umask(0o007)
    try:
        source = (
            "import heavy, os, resource\ndef see(): return [os.umask(0), resource.getrlimit(resource.RLIMIT_CORE)]\n"
        )
        assert sides.same(source)[0][0] == 0o007
    finally:
        os.umask(umask)
        if soft and hard:
            resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def test_many_edits_in_a_row_leave_nothing(sides: Sides) -> None:
    """Processes, descriptors and threads are as before, and memory nearly."""
    kernel = psutil.Process()
    others = set(kernel.children(recursive=True)) - {psutil.Process(pid) for pid in warm_pids(sides.warm.server)}

    def edit(number: int) -> None:
        assert saw(sides.load(sides.warm, f"import heavy\ndef see(): return {number}\n")) == number

    def children() -> int:
        return len(set(kernel.children(recursive=True)) - others)

    def held() -> list[int]:
        return [open_descriptors(), children(), threading.active_count()]

    for number in range(10):
        edit(number)
    eventually(lambda: children() <= len(warm_pids(sides.warm.server)) + 2)
    before, zygotes = held(), [psutil.Process(pid) for pid in warm_pids(sides.warm.server)]

    def leaked() -> bool:
        processes = [kernel, *zygotes]
        memory = [process.memory_info().rss for process in processes]
        for number in range(40):
            edit(number)
        grown = [process.memory_info().rss - m for process, m in zip(processes, memory, strict=True)]
        return grown[0] >= 8 << 20 or max(grown[1:]) >= 2 << 20

    assert not all(leaked() for _ in range(3))  # what leaks does so every time
    eventually(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))
    assert warm_pids(sides.warm.server) == {zygote.pid for zygote in zygotes}


def test_a_stub_that_dies_is_forked_again(sides: Sides) -> None:
    model = sides.load(sides.warm, "import heavy\ndef see(): return 1\n")
    instance = instances(model)[0]
    before = sides.imports()
    assert instance.pid is not None
    os.kill(instance.pid, signal.SIGSEGV)
    eventually(lambda: instance.replacement.count == 1 and model.ready())
    died = "The stub process of 'm_0_0' ended with signal SIGSEGV (Segmentation fault)."
    assert instance.replacement.last_death == died
    assert (saw(model), sides.imports()) == (1, before)
