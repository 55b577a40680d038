"""The models after a crash of the real server, as it happens now and then: later tests find those they need."""

from __future__ import annotations

import os
import signal

from .clients import Client
from .models import ADD_SUB, ADD_SUB_CONFIG, model
from .real_client import RealClient

MODELS = {"add_sub": model(ADD_SUB, ADD_SUB_CONFIG)}


def test_a_server_that_crashed_serves_the_models_of_the_module_again(side: Client, client: Client) -> None:
    if isinstance(side, RealClient):
        os.kill(side.server.pid, signal.SIGKILL)
        assert side.revive()
    assert client.ready("add_sub")
