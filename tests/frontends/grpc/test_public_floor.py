"""The public server, which takes over where grpcio's private parts are missing: the same tests, in a process of their
own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from grpc._cython import cygrpc

from tests.serving import NO_PLUGINS, environment
from tritonlab.frontends.grpc import calls

# each runs a file of tests in a process of its own
pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[3]


def without(name: str, *arguments: str) -> str:
    """Return what pytest prints where the private name is missing."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.without_cygrpc",
            "-p",
            "pytest_timeout",
            "--timeout=60",
            *arguments,
        ],
        cwd=ROOT,
        env=environment({"MISSING_NAME": name, **NO_PLUGINS}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_calls_and_streams_are_the_same() -> None:
    """Cancellation, deadlines, large messages, slow readers, the server's end."""
    output = without("SendStatusFromServerOperation", "tests/frontends/grpc/test_calls.py")
    assert "28 passed, 1 skipped" in output


def test_so_are_inference_control_and_the_token() -> None:
    output = without(
        "CompletionQueue", "tests/frontends/grpc/test_grpc_server.py", "tests/frontends/test_token.py", "-k", "not http"
    )
    assert " passed" in output and "skipped" not in output


def test_this_grpcio_has_what_is_used() -> None:
    assert calls.MISSING == ""
    assert calls.cygrpc is cygrpc


@pytest.mark.parametrize("name", [*calls._USED, "ReceiveMessageOperation", "SendMessageOperation"])
def test_each_name_is_looked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cygrpc, name)
    found, missing = calls._private_floor()
    assert found is None and name in missing


def test_other_arguments_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cygrpc, "SendMessageOperation", lambda message: None)
    found, missing = calls._private_floor()
    assert found is None and "argument" in missing


def test_a_part_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cygrpc, "CompletionQueue", object)
    assert "'poll'" in calls._private_floor()[1]
