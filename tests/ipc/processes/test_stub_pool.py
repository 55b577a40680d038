"""Zygotes and the stubs they fork: how long they live, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.interpreters import environment
from tests.serving import alive, eventually, open_descriptors
from tritonlab.ipc.link.link_reader import LinkReader
from tritonlab.ipc.processes.interpreter import Interpreter, of_environment
from tritonlab.ipc.processes.stub_launcher import StubProcess
from tritonlab.ipc.processes.stub_pool import StubPool
from tritonlab.ipc.zygotes.remembered_imports import RememberedImports
from tritonlab.ipc.zygotes.zygotes import Zygotes
from tritonlab.stub._pb_stub.wire.fork_bodies import ImportStep

Started = Callable[[], list[psutil.Process]]
#: Tests have it only if they ask for it (`tests/conftest.py`).
STAND_BY = Zygotes.stand_by


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete the variable that changes from test to test: zygotes would be thrown away for it."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")


@pytest.fixture
def standbys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each zygote have a standby at once."""
    monkeypatch.setattr(Zygotes, "stand_by", STAND_BY)
    monkeypatch.setattr("tritonlab.ipc.zygotes.zygotes._STANDBY_AFTER", 0)


@pytest.fixture
def pool(link_reader: LinkReader) -> Iterator[StubPool]:
    pool = StubPool(link_reader)
    yield pool
    pool.close()


@pytest.fixture
def started() -> Started:
    """Return a function that lists the test's processes: servers of the whole session may have some of their own."""
    before = psutil.Process().children(recursive=True)
    return lambda: [child for child in psutil.Process().children(recursive=True) if child not in before]


@pytest.fixture
def taken() -> Iterator[list[StubProcess]]:
    """Yield a list of stubs that a test has acquired; they are ended after it."""
    stubs: list[StubProcess] = []
    yield stubs
    for stub in stubs:
        stub.kill()


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a model's source and returns its path."""

    def write(source: str) -> str:
        path = tmp_path / f"{abs(hash(source))}.py"
        path.write_text(source)
        return str(path)

    return write


def imported(pool: StubPool) -> dict[int, str]:
    """Return what each zygote has imported."""
    memory = pool.memory()
    assert memory is not None
    return memory.imports


def origin(pool: StubPool) -> int:
    """Return the zygote that forked last."""
    assert pool._zygotes is not None
    return max(pool._zygotes._zygotes(), key=lambda zygote: zygote.used).child.pid


def test_nothing_is_warm_before_it_is_needed(started: Started, pool: StubPool) -> None:
    assert repr(pool) == "<StubPool [<Zygotes []>]>"
    assert started() == []


def test_a_stub_is_forked(pool: StubPool, taken: list[StubProcess]) -> None:
    assert pool.wait_warm()
    (zygote,) = imported(pool)
    taken += [pool.acquire(), pool.acquire()]
    for stub in taken:
        stub.await_hello()
        assert origin(pool) == zygote
        assert os.getsid(stub.pid) == stub.pid
        assert psutil.Process(stub.pid).ppid() == os.getpid()  # as of a stub that is no fork


def test_an_import_has_a_zygote(pool: StubPool, taken: list[StubProcess], model: Callable[[str], str]) -> None:
    taken.append(pool.acquire(model=model("import wave\nimport yaml\nfrom PIL import Image\n")))
    assert sorted(imported(pool).values()) in (["", "yaml, PIL"], [""])  # if there is no yaml
    taken.append(pool.acquire(model=model("from PIL import Image\n")))
    assert "PIL" in imported(pool).values()
    assert imported(pool)[origin(pool)] == "PIL"


def test_one_with_more_imports_is_grown_from_one_with_less(
    pool: StubPool, taken: list[StubProcess], model: Callable[[str], str]
) -> None:
    used = []
    for source in ("import PIL\n", "import PIL\nimport scipy\n"):
        taken.append(pool.acquire(model=model(source)))
        used.append(imported(pool)[origin(pool)])
    assert used == ["PIL", "PIL, scipy"]


def test_threads_that_acquire_at_once_share_a_zygote(
    pool: StubPool, taken: list[StubProcess], model: Callable[[str], str]
) -> None:
    source = model("import PIL\n")
    threads = [threading.Thread(target=lambda: taken.append(pool.acquire(model=source))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({stub.pid for stub in taken}) == 8
    assert sorted(imported(pool).values()) == ["", "PIL"]


def test_another_interpreter_has_a_zygote_of_its_own(pool: StubPool, taken: list[StubProcess]) -> None:
    for version in ("3.8", "3.13"):
        interpreter = of_environment(environment(version))
        taken.append(pool.acquire(interpreter))
        taken[-1].await_hello()
        assert psutil.Process(origin(pool)).cmdline()[0] == interpreter.executable
        assert psutil.Process(taken[-1].pid).cmdline()[0] == interpreter.executable


def test_an_interpreter_that_cannot_run(pool: StubPool, taken: list[StubProcess]) -> None:
    """A stub of it is started in vain, which says why."""
    taken.append(pool.acquire(Interpreter("/bin/true")))
    with pytest.raises(Exception, match="/bin/true"):
        taken[0].await_hello()


def test_a_zygote_of_another_environment_is_not_used(
    pool: StubPool, taken: list[StubProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.wait_warm()
    (stale,) = imported(pool)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    taken.append(pool.acquire())
    assert origin(pool) != stale
    eventually(lambda: not alive(stale))


def test_variables_that_a_stub_takes_over_later_do_not_matter(
    pool: StubPool, taken: list[StubProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool.wait_warm()
    before = list(imported(pool))
    monkeypatch.setenv("UNRELATED", "1")
    taken.append(pool.acquire())
    assert [origin(pool)] == list(imported(pool)) == before


def test_how_a_stub_ends_is_known_without_its_zygote(pool: StubPool) -> None:
    stub = pool.acquire()
    stub.await_hello()
    os.kill(origin(pool), signal.SIGKILL)
    os.kill(stub.pid, signal.SIGFPE)
    stub.reap()
    assert stub.child.exit_reason() == "signal SIGFPE (Floating point exception)"


def test_a_killed_zygote_comes_back(pool: StubPool, taken: list[StubProcess], model: Callable[[str], str]) -> None:
    source = model("import PIL\n")
    taken.append(pool.acquire(model=source))
    killed = dict(imported(pool))
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: sorted(imported(pool).values()) == ["", "PIL"] and not set(killed) & set(imported(pool)))
    taken.append(pool.acquire(model=source))
    taken[1].await_hello()
    taken[0].await_hello()  # what it had forked goes on
    assert alive(taken[0].pid)


def test_the_zygotes_that_a_killed_root_has_grown_go_on(pool: StubPool, model: Callable[[str], str]) -> None:
    pool.acquire(model=model("import PIL\n")).kill()
    (root,), (grown,) = ([pid for pid, names in imported(pool).items() if names == name] for name in ("", "PIL"))
    pool.acquire().kill()  # the root has been of use
    os.kill(root, signal.SIGKILL)
    eventually(lambda: sorted(imported(pool).values()) == ["", "PIL"] and root not in imported(pool))
    assert grown in imported(pool)


def standby(pool: StubPool, module: str) -> int:
    """Return the process id of a zygote's standby, 0 while it has none."""
    assert pool._zygotes is not None
    (found,) = (g for g in pool._zygotes._growths() if "".join(step.module for step in g.steps) == module)
    return found.standby.child.pid if found.standby is not None else 0


@pytest.mark.usefixtures("standbys")
@pytest.mark.parametrize("module", ["", "PIL"])
def test_a_standby_takes_the_place_of_a_killed_zygote(
    pool: StubPool, taken: list[StubProcess], model: Callable[[str], str], started: Started, module: str
) -> None:
    source = model(f"import {module}\n" if module else "")
    pool.acquire(model=source).kill()
    for _ in range(3):
        eventually(lambda: standby(pool, module))
        killed, next_one = origin(pool), standby(pool, module)
        assert next_one not in imported(pool)
        os.kill(killed, signal.SIGKILL)
        taken.append(pool.acquire(model=source))
        taken[-1].await_hello()
        assert origin(pool) == next_one
    eventually(lambda: standby(pool, module))
    while taken:
        taken.pop().kill()
    eventually(lambda: len(started()) == 2 * len(imported(pool)))
    pool.close()
    eventually(lambda: started() == [])


@pytest.mark.usefixtures("standbys")
def test_a_killed_standby_is_replaced_once_its_zygote_was_of_use(pool: StubPool) -> None:
    assert pool.wait_warm()
    first = eventually(lambda: standby(pool, ""))
    (zygote,) = imported(pool)
    assert pool._zygotes is not None
    (growth,) = pool._zygotes._growths()
    assert growth.standby is not None
    growth.standby.used = 1.0  # else one that ends so soon would be taken for one that cannot live
    os.kill(first, signal.SIGKILL)
    eventually(lambda: standby(pool, "") not in (0, first))
    assert list(imported(pool)) == [zygote]


@pytest.mark.usefixtures("standbys")
def test_zygotes_and_standbys_that_die_at_once_are_not_made_again_and_again(pool: StubPool, started: Started) -> None:
    assert pool.wait_warm()
    first = eventually(lambda: standby(pool, ""))
    (zygote,) = imported(pool)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: not standby(pool, ""))
    os.kill(zygote, signal.SIGKILL)
    eventually(lambda: started() == [])
    pool.acquire().kill()  # makes one
    eventually(lambda: len(started()) == 2)


@pytest.mark.usefixtures("standbys")
def test_standbys_that_come_and_go_leave_nothing(pool: StubPool, started: Started) -> None:
    pool.acquire().kill()
    eventually(lambda: standby(pool, ""))
    descriptors = open_descriptors()
    for _ in range(5):
        os.kill(origin(pool), signal.SIGKILL)
        pool.acquire().kill()
        eventually(lambda: standby(pool, ""))
    eventually(lambda: (open_descriptors(), len(started())) == (descriptors, 2))


def test_an_import_that_takes_long_is_not_waited_for(
    pool: StubPool,
    taken: list[StubProcess],
    model: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may hang: the model's own process tells where."""
    site, go = tmp_path / "site-packages", tmp_path / "go"
    site.mkdir()
    (site / "slow.py").write_text(f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.005)\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    assert pool.wait_warm()
    monkeypatch.setattr("tritonlab.ipc.zygotes.zygotes._PATIENCE", 0.01)
    source, messages = model("import slow\n"), list[str]()
    taken.append(pool.acquire(model=source, say=messages.append))
    assert messages == ["The model repeats imports at every start: 'slow', because that has taken more than 0.01 s."]
    go.touch()
    eventually(lambda: "slow" in imported(pool).values())
    taken.append(pool.acquire(model=source, say=messages.append))
    assert (taken[1].imports_again, len(messages)) == ("", 1)
    assert imported(pool)[origin(pool)] == "slow"


def test_what_is_imported_after_what_is_left_out_is_named(
    pool: StubPool,
    taken: list[StubProcess],
    model: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "fails.py").write_text("raise RuntimeError('always')\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    why = "'fails', because RuntimeError: always"
    for rest, also in (
        ("", ""),
        ("PIL", "'PIL'"),
        ("PIL, scipy, PIL", "'PIL' and 'scipy'"),
        ("PIL, a, b, c", "'PIL', 'a' and 2 more"),
    ):
        taken.append(pool.acquire(model=model(f"import fails\nimport {rest or 'json'}\n")))
        assert taken[-1].imports_again == why + (f"; also {also}, which the model imports after it" if also else "")


def test_what_takes_too_much_memory_is_not_kept(
    link_reader: LinkReader, taken: list[StubProcess], model: Callable[[str], str]
) -> None:
    pool = StubPool(link_reader, warm=1)
    messages: list[str] = []
    try:
        for _ in range(2):
            taken.append(pool.acquire(model=model("import PIL\n"), say=messages.append))
        assert list(imported(pool).values()) == [""]
        why = "'PIL', because it takes more memory than `warm` allows"
        assert messages == [f"The model repeats imports at every start: {why}."]
    finally:
        pool.close()


def test_the_one_that_was_not_used_for_longest_goes(
    pool: StubPool, model: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tritonlab.ipc.zygotes.zygotes._MOST", 2)
    for name in ("PIL", "scipy", "PIL", "pytest"):
        pool.acquire(model=model(f"import {name}\n")).kill()
    eventually(lambda: sorted(imported(pool).values()) == ["", "PIL", "pytest"])


def test_many_stubs_leave_nothing(pool: StubPool, model: Callable[[str], str]) -> None:
    source = model("import PIL\n")
    kernel = psutil.Process()
    pool.acquire(model=source).kill()
    zygotes = [psutil.Process(pid) for pid in imported(pool)]

    def held() -> list[int]:
        return [open_descriptors(), len(kernel.children(recursive=True)), *(z.num_fds() for z in zygotes)]

    def grown() -> int:
        memory = [zygote.memory_info().rss for zygote in zygotes]
        for number in range(60):
            stub = pool.acquire(model=source)
            if number % 3:
                stub.await_hello()
            (stub.kill, stub.finalize, stub.reap)[number % 2]()
        return max(zygote.memory_info().rss - m for zygote, m in zip(zygotes, memory, strict=True))

    before = held()
    assert any(grown() < 2 << 20 for _ in range(3))  # what leaks does so every time
    # at most: something of the first one may not have ended before it was counted
    eventually(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))


def test_the_kernel_inherits_nothing_else(pool: StubPool, taken: list[StubProcess]) -> None:
    """What a program leaves behind goes where it always went."""
    taken.append(pool.acquire())
    shell = subprocess.run(["sh", "-c", "sleep 60 >/dev/null & echo $!"], stdout=subprocess.PIPE, text=True)
    orphan = int(shell.stdout)
    try:
        assert psutil.Process(orphan).ppid() != os.getpid()
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_close_ends_every_process_also_one_that_is_just_starting(started: Started, link_reader: LinkReader) -> None:
    for _ in range(3):
        pool = StubPool(link_reader)
        pool.prewarm()
        pool.close()
        pool.close()
        pool.prewarm()
        assert repr(pool) == "<StubPool [<Zygotes []>]>"
    eventually(lambda: started() == [])


def test_a_pool_that_is_switched_off(started: Started, link_reader: LinkReader, taken: list[StubProcess]) -> None:
    pool = StubPool(link_reader, warm=0)
    pool.prewarm()
    assert pool.wait_warm(0)
    assert pool.memory() is None
    assert started() == []
    taken.append(pool.acquire())
    taken[0].await_hello()
    pool.close()


def test_imports_are_remembered(
    link_reader: LinkReader, tmp_path: Path, taken: list[StubProcess], model: Callable[[str], str]
) -> None:
    path = tmp_path / "of" / "the notebook.json"
    sources = ["import PIL\n", "from scipy import linalg\n"]
    first = StubPool(link_reader)
    first.prewarm(RememberedImports(path))
    for source in sources:
        first.acquire(model=model(source)).kill()
    first.close()
    second = StubPool(link_reader)
    try:
        second.prewarm(RememberedImports(path))
        assert second.wait_warm()
        warm = imported(second)
        assert sorted(warm.values()) == ["", "PIL", "scipy"]
        taken.append(second.acquire(model=model(sources[1])))
        assert warm[origin(second)] == "scipy"
    finally:
        second.close()


@pytest.mark.parametrize("text", ["", "[", "{}", "5", '[["PIL"]]', '[[["PIL", "x", false, false]]]', "\xff"])
def test_a_file_of_another_form_is_no_memory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "remembered.json"
    path.write_text(text, encoding="latin-1")
    remembered = RememberedImports(path)
    assert remembered.read() == []
    steps = (ImportStep("PIL", ("Image",), False, False),)
    remembered.add(steps)
    assert remembered.read() == [steps]


def test_only_the_last_sets_of_imports_are_remembered(tmp_path: Path) -> None:
    remembered = RememberedImports(tmp_path / "remembered.json")
    sets = [(ImportStep(name, (), False, False),) for name in "abcde"]
    for steps in [*sets, sets[2]]:
        remembered.add(steps)
    assert remembered.read() == [sets[3], sets[4], sets[2]]
    assert os.listdir(tmp_path) == ["remembered.json"]


def test_a_pool_may_close_while_an_import_hangs(
    link_reader: LinkReader,
    started: Started,
    model: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "hangs.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    pool = StubPool(link_reader)
    ended = threading.Event()

    def acquire() -> None:
        try:
            pool.acquire(model=model("import hangs\n")).kill()
        finally:
            ended.set()

    threading.Thread(target=acquire, daemon=True).start()
    eventually(lambda: len(started()) == 2)
    assert not ended.is_set()
    pool.close()
    assert ended.wait(60)
    eventually(lambda: started() == [])
