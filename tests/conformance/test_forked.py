"""BLS and metrics from a process that the model forked itself, as `multiprocessing.Pool` does."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import psutil
import pytest

from .clients import Client
from .models import SCRIPTED, config, model
from .real_client import RealClient
from .rules import rule
from .scripts import TENSORS, code, read, run, script

POOLED = SCRIPTED.replace(
    "        self.args = args\n",
    "        self.args = args\n        self.pool = multiprocessing.get_context('fork').Pool(1)\n",
).replace(
    "class TritonPythonModel:",
    '''
import multiprocessing


def work(code):
    """What the body of a function gives, or the exception it ends with."""
    scope = {"np": np, "pb_utils": pb_utils}
    exec("def script(requests):\\n" + textwrap.indent(code, "    "), scope)
    try:
        return scope["script"]([pb_utils.InferenceRequest(inputs=[], requested_output_names=[], model_name="")])
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


class TritonPythonModel:''',
    1,
)
MODELS = {"pooled": model(POOLED, config(*TENSORS)), "callee": model(SCRIPTED, config(*TENSORS))}

FIVE = code("return [number(5)]")
#: Runs `job` in processes forked now, in `execute`.
NOW = (
    "import multiprocessing, sys\n"
    "work = type(self).execute.__globals__['work']\n"
    "with multiprocessing.get_context('fork').Pool(count) as pool:\n"
    "    return reply(pool.map_async(work, [job] * count).get(8))"
)
#: Runs it in the pool that `initialize` made.
BEFORE = "return reply(self.pool.apply_async(type(self).execute.__globals__['work'], (job,)).get(8))"


#: How often 2.51 gets the request: it forks with threads running, and now and then the copy hangs in a lock of theirs.
_TRIES = 4
_HANGS = re.compile("DEADLINE|TimeoutError|is not healthy")


def forked(client: Client, job: str, where: str = NOW, count: int = 1, **names: object) -> Any:
    answer = client.infer("pooled", script(where, job=code(job, **names), count=count))
    for _ in range(_TRIES):
        if not isinstance(client, RealClient) or not _HANGS.search(answer.code + answer.error):
            break
        reload_hanging(client)
        answer = client.infer("pooled", script(where, job=code(job, **names), count=count))
    return read(answer)


def reload_hanging(client: RealClient) -> None:
    """Kill the model's processes, of which one hangs: the server starts them again with the next request."""
    for process in psutil.Process(client.server.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(argument.startswith("pooled") for argument in process.cmdline()):
                process.kill()
    assert client.placed("pooled", MODELS["pooled"]) is None


@rule("4.1.5")
@pytest.mark.parametrize("count", [1, 3])
def test_exec_in_forked_processes(client: Client, count: int) -> None:
    job = "return [got(request_to('callee', five).exec()) for _ in range(5)]"
    assert forked(client, job, count=count, five=FIVE) == [[{"OUT": [5]}] * 5] * count


@rule("4.1.5")
def test_an_error_of_the_called_model(client: Client) -> None:
    fails = code("return [R(error=E('its words'))]")
    assert forked(client, "return got(request_to('callee', fails).exec())", fails=fails) == ["its words"]


@rule("4.1.5", "1.14.6")
def test_metrics_in_a_forked_process(client: Client) -> None:
    job = (
        "family = pb_utils.MetricFamily('forked_' + 'total', 'd', pb_utils.MetricFamily.COUNTER)\n"
        "metric = family.Metric({'a': 'b'})\n"
        "metric.increment(3)\n"
        "return metric.value()"
    )
    assert forked(client, job) == [3.0]


@rule("4.1.5")
def test_the_parent_goes_on_as_if_nothing_had_been(client: Client) -> None:
    forked(client, "return 1", count=2)
    assert run(client, "pooled", "return reply(got(request_to('callee', five).exec()))", five=FIVE) == {"OUT": [5]}


@rule("4.1.5")
@pytest.mark.parametrize("side", ["lab"], indirect=True)
def test_what_hangs_or_gets_lost_in_triton_works(client: Client) -> None:
    """2.51: `exec(decoupled=True)` never returns, `is_cancelled()` neither, and Logger's lines do not arrive."""
    job = (
        "pb_utils.Logger.log_info('from a fork')\n"
        "items = [got(r) for r in request_to('callee', five).exec(decoupled=True)]\n"
        "return [items, pb_utils.is_model_ready('callee')]"
    )
    assert forked(client, job, five=FIVE) == [[[{"OUT": [5]}], True]]
    assert "from a fork" in client.log()


@rule("4.1.5", "1.18.1")
def test_processes_of_initialize(client: Client) -> None:
    """In Triton they are copies of a stub whose model is not initialized, and stay that."""
    seen = forked(client, "return got(request_to('callee', five).exec())", BEFORE, five=FIVE)
    refused = "TritonModelException: BLS is only supported during the 'execute' function."
    assert seen == (refused if client.side == "real" else {"OUT": [5]})
