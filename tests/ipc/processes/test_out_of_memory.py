from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tritonlab.ipc.processes.out_of_memory import (
    bus_words,
    kill_words,
    memory_left,
    memory_limit,
    memory_words,
    oom_kills,
    own_peak,
    peak_memory,
    shared_memory,
)

GB = 1 << 30
MB = 1 << 20


def machine(root: Path, **files: str) -> Path:
    """Write a file system with these files; `__` for `/`."""
    for name, text in {"proc__vmstat": "nr_free_pages 5\noom_kill 2\n", **files}.items():
        path = root / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_machine_without_cgroups(tmp_path: Path) -> None:
    root = machine(tmp_path, proc__meminfo="MemTotal: 1048576 kB\nMemFree: 5 kB\n")
    assert oom_kills(root) == 2
    assert memory_limit(root) == GB


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) == 0
    assert memory_limit(tmp_path) == 0
    assert peak_memory(tmp_path) == 0
    assert shared_memory(tmp_path) == (0, 0)


def test_cgroups_of_version_two(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        proc__meminfo="MemTotal: 1048576 kB\n",
        proc__self__cgroup="0::/a/b\n",
        sys__fs__cgroup__a__b__memory_events="low 0\noom 3\noom_kill 3\n",
        sys__fs__cgroup__a__b__memory_max="max\n",
        sys__fs__cgroup__a__memory_events="oom_kill 4\n",
        sys__fs__cgroup__a__memory_max=f"{600 * MB}\n",
    )
    assert oom_kills(root) == 2 + 3 + 4
    assert memory_limit(root) == 600 * MB


def test_cgroups_of_version_one_inside_of_a_container(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        proc__self__cgroup="9:cpu:/docker/1\n4:memory:/docker/1\n0::/docker/1\n",
        sys__fs__cgroup__memory__memory_oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        sys__fs__cgroup__memory__memory_limit_in_bytes=f"{400 * MB}\n",
    )
    assert oom_kills(root) == 2 + 1
    assert memory_limit(root) == 400 * MB


def test_what_is_left_is_the_least_of_machine_and_cgroups_with_what_is_cached(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        proc__meminfo="MemTotal: 1048576 kB\nMemAvailable: 900000 kB\n",
        proc__self__cgroup="0::/a/b\n",
        sys__fs__cgroup__a__b__memory_max="max\n",
        sys__fs__cgroup__a__memory_max=f"{600 * MB}\n",
        sys__fs__cgroup__a__memory_current=f"{500 * MB}\n",
        sys__fs__cgroup__a__memory_stat=f"anon 7\nactive_file {30 * MB}\ninactive_file {20 * MB}\nshmem {9 * MB}\n",
    )
    assert memory_left(root) == 150 * MB
    (root / "proc" / "meminfo").write_text("MemAvailable: 1024 kB\n")
    assert memory_left(root) == MB


def test_what_is_left_in_a_cgroup_of_version_one_counts_those_below(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        proc__self__cgroup="4:memory:/docker/1\n",
        sys__fs__cgroup__memory__memory_limit_in_bytes=f"{400 * MB}\n",
        sys__fs__cgroup__memory__memory_usage_in_bytes=f"{300 * MB}\n",
        sys__fs__cgroup__memory__memory_stat=f"active_file 5\ntotal_active_file {MB}\ntotal_inactive_file {2 * MB}\n",
    )
    assert memory_left(root) == 103 * MB


def test_a_machine_that_says_nothing_has_memory_left(tmp_path: Path) -> None:
    assert memory_left(tmp_path) == sys.maxsize


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        proc__self__cgroup="4:memory:/\n",
        sys__fs__cgroup__memory__memory_limit_in_bytes="9223372036854771712\n",
    )
    assert memory_limit(root) == 0


def test_this_machine_says_how_much_memory_it_has() -> None:
    assert memory_limit() > 100 * MB
    assert oom_kills() >= 0
    assert peak_memory() > 10 * MB
    left, size = shared_memory()
    assert 0 <= left <= size


@pytest.mark.parametrize(
    ("reported", "inherited", "own"),
    [
        (300 * MB, 100 * MB, 300 * MB),
        (300 * MB, 300 * MB, 0),
        (310 * MB, 300 * MB, 0),  # the counters are not exact
        (300 * MB, 0, 300 * MB),
        (0, 300 * MB, 0),
    ],
)
def test_of_the_peak_only_what_is_above_the_parents_is_known(reported: int, inherited: int, own: int) -> None:
    assert own_peak(reported, inherited) == own


@pytest.mark.parametrize(
    ("peak", "limit", "kills", "words"),
    [
        (0, 0, 0, ""),
        (100 * MB, 4 * GB, 0, ""),
        (0, 4 * GB, 0, ""),
        (3 * GB, 4 * GB, 0, "Memory probably ran out: it had used up to 3.0 GB of 4.0 GB."),
        (
            100 * MB,
            4 * GB,
            1,
            "The operating system has killed a process for lack of memory since the model took this one, which had "
            "used up to 100 MB of 4.0 GB.",
        ),
        (0, 0, 1, "The operating system has killed a process for lack of memory since the model took this one."),
    ],
)
def test_words_for_a_lack_of_memory(peak: int, limit: int, kills: int, words: str) -> None:
    assert memory_words(peak, limit, kills) == words


@pytest.mark.parametrize(
    ("peak", "limit", "used"),
    [
        (0, 4 * GB, ""),
        (100 * MB, 4 * GB, " (it had used up to 100 MB of 4.0 GB)"),
        (100 * MB, 0, " (it had used up to 100 MB)"),
    ],
)
def test_words_for_a_kill_that_is_not_for_memory(peak: int, limit: int, used: str) -> None:
    assert kill_words(peak, limit) == (
        f"Nothing shows that memory ran out{used}: somebody has probably killed it, with `kill` or a supervisor, "
        "or the model itself has."
    )


@pytest.mark.parametrize(("left", "is_full"), [(0, True), (MB - 1, True), (MB, False), (64 * MB, False)])
def test_words_for_a_bus_error(left: int, is_full: bool) -> None:
    assert bus_words(left, 64 * MB).startswith("/dev/shm is full (64 MB), so a page") == is_full


def test_a_machine_without_shared_memory_is_not_full() -> None:
    assert bus_words(0, 0) == (
        "A page of mapped memory could not be read or allocated: its file was cut short, or the file system or memory "
        "is full."
    )
