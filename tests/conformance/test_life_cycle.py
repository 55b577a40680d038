"""What a model's process lives through: slow starts, a missing file, the end of its server."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from .clients import Client, Failure
from .lab_client import LabClient
from .models import SCRIPTED, config, model
from .real_client import RealClient
from .reference import ReferenceServer
from .rules import rule
from .scripts import TENSORS, marked, read, script
from .test_load import ANSWERING, ANSWERING_CONFIG, answer_of

ROOT = Path(__file__).resolve().parents[2]


@rule("2.2.3", "2.2.4", "2.9")
@pytest.mark.parametrize("program", ["real", "lab"])
def test_a_slow_initialize_is_waited_for_whatever_the_stub_timeout(
    request: pytest.FixtureRequest, tmp_path: Path, program: str
) -> None:
    files = model(ANSWERING.format("import time; time.sleep(2.5); self.answer = 'slept'"), ANSWERING_CONFIG)
    if program == "lab":
        lab = LabClient(tmp_path, backend_config={"stub-timeout-seconds": "1"})
        assert lab.placed("slow", files) is None
        assert answer_of(lab, "slow") == "slept"
        lab.close()
        return
    request.getfixturevalue("real")  # skips where there is none
    repository = tmp_path / "repository"
    repository.mkdir()
    with ReferenceServer(repository, tmp_path, ["--backend-config=python,stub-timeout-seconds=1"]) as server:
        real = RealClient(server)
        assert real.placed("slow", files) is None
        assert answer_of(real, "slow") == "slept"
        real.close()


@rule("2.3.3")
@pytest.mark.parametrize("returned", ["0", "ValueError('not raised')", "args"])
def test_what_initialize_returns_is_ignored(side: Client, returned: str) -> None:
    assert side.placed("m", model(ANSWERING.format(f"self.answer = 1; return {returned}"), ANSWERING_CONFIG)) is None
    assert answer_of(side, "m") == 1
    side.unload("m")


@rule("2.3.3")
def test_an_async_initialize_is_never_run(side: Client) -> None:
    source = ANSWERING.replace("    def initialize", "    answer = 'not run'\n\n    async def initialize")
    assert side.placed("m", model(source.format("self.answer = 'run'"), ANSWERING_CONFIG)) is None
    assert answer_of(side, "m") == "not run"
    side.unload("m")


@rule("2.4.6")
def test_a_completion_that_says_what_the_file_says_changes_nothing(side: Client) -> None:
    completes = """
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_INT32", "dims": [1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(0)
        return config
"""
    text = config("IN INT32 1", "OUT STRING 1")
    found = []
    for source in (ANSWERING, ANSWERING + completes):
        assert side.placed("m", model(source.replace("{}", "self.answer = 1"), text)) is None
        found.append(side.config("m"))
        side.unload("m")
    assert not isinstance(found[0], Failure)
    assert found[0] == found[1]


@rule("2.5.6")
def test_a_missing_model_file_fails_the_load(lab: Client) -> None:  # 2.51 waits for ever
    failure = lab.placed("m", {"1/readme.txt": "", "config.pbtxt": ANSWERING_CONFIG})
    lab.unload("m")
    assert failure is not None
    assert failure.text == (
        "load failed for model 'm': version 1 is at UNAVAILABLE state: "
        "Internal: Python model file not found in '<repository>/m/1/model.py';\n"
    )


@rule("2.6.1", "2.6.3")
def test_a_dead_instance_fails_its_own_requests_only(side: Client, tmp_path: Path) -> None:
    two = "instance_group { kind: KIND_CPU count: 2 }"
    assert side.placed("pair", model(SCRIPTED, config(*TENSORS, two))) is None
    holds = "mark(here, self.args['model_instance_name'])\nuntil(lambda: os.path.exists(go))\nreturn reply('went on')"
    held = side.submit("pair", script(holds, here=str(tmp_path / "here"), go=str(tmp_path / "go")))
    other = {"pair_0_0": "pair_0_1", "pair_0_1": "pair_0_0"}[marked(tmp_path / "here")]
    answer = side.infer("pair", script("os._exit(1)"))
    assert (answer.code, answer.error) == ("INTERNAL", f"Stub process '{other}' is not healthy.")
    (tmp_path / "go").touch()
    assert read(held.answer.result(60)) == "went on"
    side.unload("pair")


def wait_until_gone(pids: list[int], seconds: float) -> bool:
    """Return whether all these processes end in time; nothing reports when one that is not a child has."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids):
            return True
        time.sleep(0.05)
    return False


def stubs_of(server: int) -> list[int]:
    found = []
    for child in psutil.Process(server).children(recursive=True):
        if any("triton_python_backend_stub" in part for part in child.cmdline()):
            found.append(child.pid)
    return found


#: A kernel with one model, which says its stubs' process ids and then waits.
KERNEL = """
import sys
import tritonlab

server = tritonlab.Server(sys.argv[1], warm=0)
print(*[instance["pid"] for instance in server.model("m").instances()], flush=True)
sys.stdin.read()
"""


@rule("2.6.4")
def test_tritons_stubs_end_when_their_server_is_killed(
    reference_server: Callable[[Path], ReferenceServer], tmp_path: Path
) -> None:
    server = reference_server(tmp_path)
    real = RealClient(server)
    assert real.placed("m", model(ANSWERING.format("self.answer = 1"), ANSWERING_CONFIG)) is None
    real.close()
    stubs = stubs_of(server.pid)
    assert len(stubs) == 1
    os.kill(server.pid, 9)
    while server.running():  # `poll` reaps it, too: to its stubs a zombie is still their parent
        time.sleep(0.05)
    assert wait_until_gone(stubs, 10)
    server.stop()


@rule("2.6.4")
def test_our_stubs_end_when_their_kernel_is_killed(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text(ANSWERING.format("self.answer = 1"))
    (tmp_path / "m" / "config.pbtxt").write_text(ANSWERING_CONFIG)
    command = [sys.executable, "-c", textwrap.dedent(KERNEL), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as kernel:
        assert kernel.stdout is not None
        stubs = [int(pid) for pid in kernel.stdout.readline().split()]
        assert len(stubs) == 1
        kernel.kill()
    assert wait_until_gone(stubs, 10)
