"""A server that may open no more files: it does not spin, says so once, and goes on when files are closed."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Fills the descriptors of its process, lets clients come, and frees them again. What new clients get then is printed,
#: with the processor time of the shortage and what was logged.
SCRIPT = """
import os, resource, socket, sys, time
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.server.inference_server import InferenceServer
from tritonlab.server.options import Options

protocol = sys.argv[1]
REQUESTS = {"http": b"GET /v2/health/live HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n", "grpc": b""}
logged = lambda: [record.text for record in core.log.records() if "can be accepted" in record.text]

def take_all(taken):
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass

core = InferenceServer([], Options(model_control_mode="explicit", warm=0))
options = EndpointOptions(http_port=0, grpc_port=0, metrics=False, **{"grpc" if protocol == "http" else "http": False})
with Endpoints(core, options) as endpoints:
    host, _, port = getattr(endpoints, protocol).rpartition(":")
    clients = [socket.socket() for _ in range(20)]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for turn in (1, 2):
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        taken = []
        take_all(taken)
        mine = clients[10 * (turn - 1) : 10 * turn]
        for client in mine:
            client.settimeout(30)
            client.connect((host, int(port)))
        used, end = time.process_time(), time.monotonic() + 30
        while len(logged()) < turn and time.monotonic() < end:
            take_all(taken)  # the server may just have closed the connection of the last turn
            time.sleep(0.1)
        used, begun = time.process_time(), time.monotonic()
        time.sleep(1)
        assert time.process_time() - used < 0.5 * (time.monotonic() - begun), "it spins"
        assert len(logged()) == turn, logged()
        for file in taken:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        time.sleep(1.5)  # of a look that finds room
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(REQUESTS[protocol])
            assert client.recv(1000)
    print(logged()[0])
"""


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_port_says_that_files_are_out_and_goes_on_when_they_are_closed(protocol: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, protocol], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "no connection can be accepted: too many open files: this process may have " in done.stdout
    assert "`ulimit -n`" in done.stdout
