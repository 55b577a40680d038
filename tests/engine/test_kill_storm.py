"""Stubs that are killed at any moment: no model may stay dead, and nothing may be left of them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time

import psutil
import pytest

from tests.serving import Lab, alive, eventually, in_threads, instances, stub_processes
from tritonlab.core.status import ModelError
from tritonlab.server.api.model import Model

#: Every part of a life takes long enough to be hit.
SOURCE = """
import time
time.sleep(0.03)
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        time.sleep(0.03)

    def execute(self, requests):
        time.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([[1]]))]) for _ in requests]

    def finalize(self):
        time.sleep(0.03)
"""
CONFIG = """
backend: "python" max_batch_size: 4 dynamic_batching {} instance_group { kind: KIND_CPU count: COUNT }
input { name: "A" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }
model_warmup { name: "once" batch_size: 1
  inputs { key: "A" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }
"""
STORM_SECONDS = 3.0
NAMES = ("one", "two")


def storm(seed: int) -> int:
    """Kill stubs at random moments, and return how many."""
    dice, killed = random.Random(seed), 0
    end = time.monotonic() + STORM_SECONDS
    while time.monotonic() < end:
        for stub in stub_processes():
            if dice.random() < 0.5:
                with contextlib.suppress(psutil.NoSuchProcess):
                    stub.kill()
                    killed += 1
        time.sleep(dice.uniform(0, 0.15))
    return killed


def send_until(model: Model, over: threading.Event) -> set[str]:
    """Send requests until it is over; return the texts of those that failed."""
    texts = set()
    while not over.is_set():
        try:
            assert model(A=[[2.0]])["OUT"] == [[1.0]]
        except ModelError as error:
            texts.add(error.message)
            time.sleep(0.01)
    return texts


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_storm_of_kills_every_model_lives(lab: Lab, seed: int) -> None:
    models = [lab.load(name, SOURCE, CONFIG.replace("COUNT", str(n))) for n, name in enumerate(NAMES, 1)]
    over = threading.Event()

    def act(index: int) -> object:
        if index < len(models):
            return send_until(models[index], over)
        try:
            return storm(seed)
        finally:
            over.set()

    *texts, killed = in_threads(len(models) + 1, act)
    assert isinstance(killed, int)
    assert killed > 5
    for model, failed in zip(models, texts, strict=True):
        names = [instance.plan.name for instance in instances(model)]
        assert failed <= {f"Stub process '{name}' is not healthy." for name in names}  # type: ignore[operator]
        eventually(model.ready, timeout=30)
        answers = in_threads(8, lambda index, model=model: float(model(A=[[2.0]])["OUT"][0, 0]))
        assert answers == [1.0] * 8
        assert all(not instance.inflight and instance.replacement.next_try is None for instance in instances(model))
    pids = [instance.pid for model in models for instance in instances(model)]
    for model in models:
        lab.server.unload(model)
    assert not any(alive(pid) for pid in pids if pid is not None)
    eventually(lambda: not [t.name for t in threading.enumerate() if t.name.startswith(("restart", "unload"))])


def test_a_stub_that_is_killed_in_finalize_does_not_hold_the_unload(lab: Lab) -> None:
    model = lab.load("last", SOURCE.replace("0.03", "0.3"), CONFIG.replace("COUNT", "1"))
    (pid,) = [instance.pid for instance in instances(model)]
    assert pid is not None
    unload = threading.Thread(target=lab.server.unload, args=(model,))
    unload.start()
    eventually(lambda: model.state == "UNLOADING")
    time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    unload.join(20)
    assert not unload.is_alive()
    assert model.state == "UNAVAILABLE"
