"""A kernel in a process of its own, for what is measured from outside. Prints one JSON line per reading.

`soak` sends 20,000 requests and tells the memory after 1,000 and at the end. `churn` sends 100,000 to 50 models that it
loads and unloads at random, and tells what it holds after a fifth and at the end, when nothing is loaded. `wait` tells
its children and waits to be killed.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from pathlib import Path

import numpy as np
import psutil

import tritonlab


def print_reading(**reading: object) -> None:
    print(json.dumps(reading), flush=True)


def resident(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def soak(server: tritonlab.Server) -> None:
    model = server.load("add_sub")
    (stub,) = (instance["pid"] for instance in model.instances())
    a = np.ones(4, dtype=np.float32)
    time.sleep(2)  # the pool has filled up by then, which is no growth of requests
    for number in range(1, 20_001):
        model(INPUT0=a, INPUT1=a)
        if number in (1_000, 20_000):
            gc.collect()
            print_reading(kernel=resident(psutil.Process().pid), stub=resident(stub))


def churn(server: tritonlab.Server, requests: int = 100_000, models: int = 50, turn: int = 200) -> None:
    """Load or unload one model every `turn` requests; the requests go to any that are loaded."""
    chance = random.Random(0)
    a = np.ones(4, dtype=np.float32)
    loaded: dict[str, tritonlab.Model] = {}
    for number in range(1, requests + 1):
        if not loaded or number % turn == 0:
            name = f"model_{chance.randrange(models)}"
            if loaded.pop(name, None) is None:
                loaded[name] = server.load(name)
            else:
                server.unload(name)
            names = list(loaded.values())
        if loaded:
            chance.choice(names)(INPUT0=a, INPUT1=a)
        if number in (requests // 5, requests):
            for name in loaded:
                server.unload(name)
            loaded.clear()
            print_reading(**held(server))


def held(server: tritonlab.Server) -> dict[str, int]:
    """Return what this process holds once it has come to rest."""
    server.core.pool.wait_warm()
    time.sleep(3)
    gc.collect()
    process = psutil.Process()
    return {"memory": resident(process.pid), "descriptors": process.num_fds(), "threads": process.num_threads()}


def wait(server: tritonlab.Server) -> None:
    for name in ("add_sub", "pair"):
        server.load(name)
    time.sleep(1)  # spare stubs are there by then, and must go too
    print_reading(children=[p.pid for p in psutil.Process().children(recursive=True)])
    time.sleep(60)


if __name__ == "__main__":
    what = {"soak": soak, "churn": churn, "wait": wait}[sys.argv[2]]
    with tritonlab.Server(Path(sys.argv[1]), model_control_mode="explicit") as kernel:
        what(kernel)
