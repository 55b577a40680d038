"""BLS calls to ensembles and along chains, and the memory that their answers take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .clients import Client
from .lab_client import LabClient
from .models import CPU, SCRIPTED, config, model
from .real_client import RealClient
from .rules import rule
from .scripts import TENSORS, code, eventually, run

#: One thread for the calls of each instance in Triton.
OPTIONS = (["--backend-config=python,thread-pool-size=1"], {"backend_config": {"thread-pool-size": "1"}})
DECOUPLED = "model_transaction_policy { decoupled: true }"


def ensemble(step: str, *more: str) -> str:
    """Return an ensemble of one model, with its tensors."""
    tensors = config(*TENSORS, *more or ("",)).replace('backend: "python"', 'platform: "ensemble"')
    maps = 'input_map { key: "CODE" value: "CODE" } ' + "".join(
        f'output_map {{ key: "{name}" value: "{name}" }} ' for name in ("OUT", "TEXT")
    )
    return f'{tensors}ensemble_scheduling {{ step {{ model_name: "{step}" model_version: -1 {maps} }} }}'


MODELS = {
    **{name: model(SCRIPTED, config(*TENSORS)) for name in ("one", "two", "three", "four")},
    "flow": model(SCRIPTED, config(*TENSORS, DECOUPLED, CPU)),
    "chain": {"config.pbtxt": ensemble("four"), "1/keep": ""},
    "flow_chain": {"config.pbtxt": ensemble("flow", DECOUPLED), "1/keep": ""},
}
FIVE = code("return [number(5)]")


@rule("4.3.6")
def test_an_ensemble_is_called_like_a_model(client: Client) -> None:
    assert run(client, "one", "return reply(got(request_to('chain', five, ['OUT']).exec()))", five=FIVE) == {"OUT": [5]}


@rule("4.3.6", "4.2.1")
def test_a_decoupled_ensemble_needs_the_flag(client: Client) -> None:
    two = code("sender().send(number(1))\nsender().send(number(2), 1)")
    refused = run(client, "one", "return reply(got(request_to('flow_chain', two, ['OUT']).exec()))", two=two)
    assert "Please use 'decoupled=True' argument" in refused
    body = "return reply([got(r) for r in request_to('flow_chain', two, ['OUT']).exec(decoupled=True)])"
    assert run(client, "one", body, two=two) == [{"OUT": [1]}, {"OUT": [2]}]


@rule("4.4.2")
def test_a_chain_takes_one_thread_of_each_instance(client: Client) -> None:
    calls_next = "return [number(got(request_to(model, inner, ['OUT']).exec())['OUT'][0])]"
    third = code(calls_next, model="four", inner=FIVE)
    second = code(calls_next, model="three", inner=third)
    body = "return reply(got(request_to('two', second, ['OUT']).exec()))"
    assert run(client, "one", body, second=second) == {"OUT": [5]}


@rule("4.4.2", "2.9")
def test_an_instance_has_as_many_calls_in_flight_as_the_pool_has_threads(client: Client, tmp_path: Path) -> None:
    """Here a call in flight takes no thread, so nothing limits them. The second call is made when the first is
    executed: which of two made together is the first is chance in Triton."""
    waits = code(
        "mark(begun)\n"
        "end = time.monotonic() + 2\n"
        "while not os.path.exists(there) and time.monotonic() < end:\n"
        "    time.sleep(0.005)\n"
        "return [number(os.path.exists(there))]",
        begun=str(tmp_path / "begun"),
        there=str(tmp_path / "there"),
    )
    body = (
        "async def both():\n"
        "    first = request_to('two', waits).async_exec()\n"
        "    while not os.path.exists(begun):\n"
        "        await asyncio.sleep(0.005)\n"
        "    return await asyncio.gather(first, request_to('three', marks).async_exec())\n"
        "return reply([got(response) for response in asyncio.run(both())])"
    )
    marks = code("mark(there)\nreturn [number(5)]", there=str(tmp_path / "there"))
    answers = run(client, "one", body, waits=waits, marks=marks, begun=str(tmp_path / "begun"))
    assert answers == [{"OUT": [int(client.side == "lab")]}, {"OUT": [5]}]


@rule("4.4.4")
def test_the_memory_of_answers(client: Client) -> None:
    """The caller's region grows for them. Triton's keeps its size; of ours the blocks are free again."""
    before = used_bytes(client)
    big = code("return [R([T('OUT', np.zeros(1 << 21, np.int32))])]")
    body = "return reply(request_to('two', big).exec().output_tensors()[0].as_numpy().size)"
    assert run(client, "one", body, big=big) == 1 << 21
    if client.side == "real":
        run(client, "one", "return reply(gc.collect() * 0)")
        assert used_bytes(client) >= before + (1 << 23)
    else:
        eventually(lambda: used_bytes(client) == before)


def used_bytes(client: Client) -> int:
    """Return the bytes of all regions of Triton's stubs, or those in use of what we write for the calling model."""
    if isinstance(client, RealClient):
        return sum(region.stat().st_size for region in Path("/dev/shm").glob(client.server.region_prefix + "*"))
    assert isinstance(client, LabClient)
    stub: Any = client.server.model("one").serving_version().instances[0].stub
    return int(stub.link.region.used)
