from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: Sends a call to the server from a process of its own, and prints the names of threads that worked for it.
CODE = """
import os, subprocess, sys, threading
from concurrent import futures
import tritonlab.frontends.grpc
import grpc

print(os.environ.get("GRPC_EXPERIMENTS"))
server = grpc.server(futures.ThreadPoolExecutor(1))
port = server.add_insecure_port("127.0.0.1:0")
server.start()

def switches():
    tasks = {}
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as name, open(f"/proc/self/task/{task}/schedstat") as times:
            tasks[task] = name.read().strip(), int(times.read().split()[2])
    return tasks

call = '''
import grpc, sys
call = grpc.insecure_channel(sys.argv[1]).unary_unary("/a/b")
for _ in range(200):
    try:
        call(b"")
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
'''
before = switches()
subprocess.run([sys.executable, "-c", call, f"127.0.0.1:{port}"], check=True, timeout=60)
after = switches()
print(sum(after[task][1] - before[task][1] for task in before if before[task][0] == "event_engine" and task in after))
server.stop(0)
"""


def run(**variables: str) -> list[str]:
    """Return the variable that grpcio reads, as models would get it, and how often grpcio's own threads ran for 200
    calls.
    """
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env={**environment, **variables}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "xperiment" not in done.stderr
    return done.stdout.split()


def test_the_serving_thread_reads_the_sockets_and_models_do_not_hear_of_it() -> None:
    """Who has set the switches is left alone; grpcio's own threads run for every call then."""
    variable, ran = run()
    assert variable == "None"
    variable, ran_for_each = run(GRPC_EXPERIMENTS="event_engine_listener")
    assert variable == "event_engine_listener"
    assert int(ran_for_each) > 200
    assert int(ran) < int(ran_for_each) / 2  # some run by the clock, and more on a busy machine


#: Forks while a server waits for calls, as `!command` of a notebook does.
FORK = """
import os, time
from tritonlab.frontends.grpc.calls import CallServer

server = CallServer({}, [])
server.listen("127.0.0.1:0")
server.start()
time.sleep(0.3)  # until the thread waits in grpcio
if not (pid := os.fork()):
    os._exit(0)
os.waitpid(pid, 0)
server.stop()
print(os.environ.get("GRPC_VERBOSITY"))
"""


@pytest.mark.parametrize(("set_before", "says"), [({}, False), ({"GRPC_VERBOSITY": "INFO"}, True)])
def test_a_fork_beside_a_server_is_silent(set_before: dict[str, str], says: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"} | set_before
    done = subprocess.run(
        [sys.executable, "-c", FORK], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == str(set_before.get("GRPC_VERBOSITY"))
    assert ("fork" in done.stderr) == says, done.stderr


@pytest.fixture(autouse=True)
def _linux() -> None:
    if not os.path.exists("/proc/self/schedstat"):
        pytest.skip("nobody counts here how often threads run")
