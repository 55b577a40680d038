"""How long a model is away after its stub was killed under load, and after its zygotes were killed with it.

The killed model has clients, and so has one beside it, whose requests want both cores of a small machine meanwhile. A
time is from the kill to the first good answer.

`python -m tests.benchmarks.recovery [KILLS]` measures that alone. `... clients ADDRESS MODEL COUNT` is the load: that
many clients in a process of their own, which ask again at once, also after an error, until its stdin ends.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import tritonclient.http

from tests.conformance.models import config
from tests.conformance.reference import ROOT
from tests.models import executes

from .measuring import place
from .over_network import LabServer

KILLS = 200
ZYGOTE_KILLS = 50
#: Clients of the model whose stub is killed, and of one beside it, which keep two cores busy meanwhile.
CLIENTS = 4
BESIDE = 2
#: Seconds between a good answer and the next kill, at most. A zygote has its standby again after half a second.
_PAUSE = 0.2
_ZYGOTE_PAUSE = 0.8
#: Seconds between two kills of the storm, at most.
_STORM_PAUSE = 0.15
#: Seconds until the load has settled, and the server has the zygotes that it wants.
_SETTLED = 3

#: Answers with the process id of its stub.
_MODEL = executes(
    """
    pid = np.array([os.getpid()], np.int32)
    return [pb_utils.InferenceResponse([pb_utils.Tensor("PID", pid)]) for _ in requests]
    """,
    imports="import os",
)
_CONFIG = config("IN FP32 4", "PID INT32 1")
_REQUEST = json.dumps({"inputs": [{"name": "IN", "shape": [4], "datatype": "FP32", "data": [0, 0, 0, 0]}]}).encode()


@dataclass(frozen=True)
class Recoveries:
    """The milliseconds from each kill to the first good answer."""

    p50: float
    p99: float
    longest: float
    count: int

    @classmethod
    def of(cls, seconds: list[float]) -> Recoveries:
        p50, p99, longest = (1e3 * float(np.quantile(seconds, q)) for q in (0.5, 0.99, 1))
        return cls(p50, p99, longest, len(seconds))

    def __str__(self) -> str:
        return f"p50 {self.p50:.0f} ms, p99 {self.p99:.0f} ms, max {self.longest:.0f} ms of {self.count}"


def serving_stub(connection: http.client.HTTPConnection, model: str) -> int:
    """Return the process id of the stub that answers, 0 if it is not a good answer."""
    connection.request("POST", f"/v2/models/{model}/infer", _REQUEST)
    answer = connection.getresponse()
    body = answer.read()
    return int(json.loads(body)["outputs"][0]["data"][0]) if answer.status == 200 else 0


@contextlib.contextmanager
def under_load(address: str, clients: dict[str, int]) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.benchmarks.recovery", "clients", address]
    loads = [
        subprocess.Popen([*command, model, str(count)], cwd=ROOT, stdin=subprocess.PIPE)
        for model, count in clients.items()
    ]
    try:
        yield
    finally:
        for load in loads:
            load.communicate()


def send(address: str, model: str, count: int) -> None:
    """Send the load."""
    over = threading.Event()

    def work() -> None:
        with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
            while not over.is_set():
                serving_stub(connection, model)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()


@contextlib.contextmanager
def loaded(server: LabServer) -> Iterator[http.client.HTTPConnection]:
    """Load the model "struck", whose stub is killed, and the one beside it, both with requests all the time."""
    with tritonclient.http.InferenceServerClient(server.http, network_timeout=60) as client:
        for name in ("struck", "beside"):
            place(server.repository, name, _MODEL, _CONFIG)
            client.load_model(name)
    with (
        closing(http.client.HTTPConnection(server.http, timeout=60)) as connection,
        under_load(server.http, {"struck": CLIENTS, "beside": BESIDE}),
    ):
        time.sleep(_SETTLED)
        yield connection


def children(server: LabServer) -> dict[int, float]:
    """Return when each child of the server began, by process id."""
    found = {}
    for child in psutil.Process(server.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            found[child.pid] = child.create_time()
    return found


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def in_turn(
    server: LabServer, kills: int, also: Callable[[dict[int, float]], Iterable[int]], least: float = 0.0
) -> Recoveries:
    """Kill the stub, and those of the zygotes that `also` chooses, when the last kill has been recovered from."""
    chance, times = random.Random(0), []
    with loaded(server) as connection:
        beside = serving_stub(connection, "beside")
        for _ in range(kills):
            stub = serving_stub(connection, "struck")
            zygotes = {pid: began for pid, began in children(server).items() if pid not in (beside, stub)}
            started = time.perf_counter()
            kill([*also(zygotes), stub])  # the stub last: its replacement begins at once
            while serving_stub(connection, "struck") in (0, stub):
                time.sleep(0.001)
            times.append(time.perf_counter() - started)
            time.sleep(least + chance.uniform(0, _PAUSE))
    return Recoveries.of(times)


def stub_killed(server: LabServer, kills: int = KILLS) -> Recoveries:
    return in_turn(server, kills, lambda zygotes: ())


def zygote_killed(server: LabServer, kills: int = ZYGOTE_KILLS) -> Recoveries:
    """Kill the zygote that forks the stubs, too: the one that has been there for longest."""
    return in_turn(server, kills, lambda zygotes: sorted(zygotes, key=lambda pid: zygotes[pid])[:1], _ZYGOTE_PAUSE)


def all_killed(server: LabServer, kills: int = ZYGOTE_KILLS) -> Recoveries:
    """Kill all processes that could become a stub, too."""
    return in_turn(server, kills, lambda zygotes: zygotes)


def stormed(server: LabServer, kills: int = KILLS) -> Recoveries:
    """Kill stubs at any moment, also while they start: a time is from the last kill before an answer."""
    answers: list[tuple[float, int]] = []
    over = threading.Event()

    def probe(connection: http.client.HTTPConnection) -> None:
        while not over.is_set():
            if pid := serving_stub(connection, "struck"):
                answers.append((time.perf_counter(), pid))
            else:
                time.sleep(0.001)

    chance = random.Random(0)
    killed: dict[int, float] = {}
    with loaded(server) as connection:
        kept = children(server).keys() - {serving_stub(connection, "struck")}
        thread = threading.Thread(target=probe, args=(connection,))
        thread.start()
        while len(killed) < kills:
            time.sleep(chance.uniform(0, _STORM_PAUSE))
            victims = children(server).keys() - kept - killed.keys()
            killed.update(dict.fromkeys(victims, time.perf_counter()))
            kill(victims)
        while not answers or answers[-1][1] in killed:
            time.sleep(0.01)
        over.set()
        thread.join()
    # the stub that answers first after a kill was started after it: kills that meet it before have no time of their own
    ends: dict[float, float] = {}
    for began, pid in starts_of_service(answers):
        before = [when for victim, when in killed.items() if victim != pid and when < began]
        if before:
            ends.setdefault(max(before), began)
    return Recoveries.of([end - began for began, end in ends.items()])


def starts_of_service(answers: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Return the first answer of each stub, and when it came."""
    first: dict[int, float] = {}
    for at, pid in answers:
        first.setdefault(pid, at)
    return [(at, pid) for pid, at in first.items()]


MEASURES = {stub_killed: KILLS, stormed: KILLS, zygote_killed: ZYGOTE_KILLS, all_killed: ZYGOTE_KILLS}


def main(most: int) -> None:
    with tempfile.TemporaryDirectory() as directory, LabServer(Path(directory) / "served") as server:
        for measure, kills in MEASURES.items():
            print(f"{measure.__name__}: {measure(server, min(kills, most))}; load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["clients"]:
        send(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else KILLS)
