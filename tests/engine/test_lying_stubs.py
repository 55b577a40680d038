"""Models that use their stub's end of the link and send what no correct stub sends: their requests fail, and nothing
else.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.serving import DECOUPLED, Lab, Script, config, eventually
from tritonlab.core.status import ModelError
from tritonlab.testing import RecordingInstrument

#: The stub's own objects, as the model can reach them.
LINK = """
bridge = sys.modules["_pb_stub.api.bridge"].current()
NUMBER = sys.modules["_pb_stub.wire.ipc_message"].NUMBER
connection, region, sock = bridge.connection, bridge.region, bridge.connection._sock
handle = request._handle
block = region.allocate(64)

def executed(*responses, error=None, block=None):
    return [1, 2, 3, error, block, list(responses)]

def tensor(name="OUT", datatype=11, shape=(1,), memory=0, device=0, offset=block, size=4):
    return [name, datatype, list(shape), memory, device, offset, size]

def send(name, ident, body):
    connection.send(NUMBER[name], ident, body)
    time.sleep(600)

def header(command, length):
    wire = sys.modules["_pb_stub.wire.ipc_message"]
    version = sys.modules["_pb_stub.wire.serialization"].WIRE_VERSION
    return wire.HEADER.pack(version + command + length, command, 0, length, 0)

def one(tensor):
    send("EXECUTED", BATCH, executed([[tensor], None, ""], block=block))

def infer(tensor):
    send("INFER", 1, [["m", -1, "", 0, 0, 0, "", [], None, None], False, block, [tensor], 0])
"""

LIES = {
    "another wire version": "sock.sendall(b'\\x07' * 64); time.sleep(600)",
    "garbage": "sock.sendall(os.urandom(4096)); time.sleep(600)",
    "an unknown command": "sock.sendall(header(99, 0)); time.sleep(600)",
    "a huge length": "sock.sendall(header(34, 0x7FFFFFFF)); time.sleep(600)",
    "bad JSON": "sock.sendall(header(34, 2) + b'[['); time.sleep(600)",
    "a damaged length": "sock.sendall(header(34, 2)[:8] + b'\\1' + header(34, 2)[9:] + b'[]'); time.sleep(600)",
    "another batch": "send('EXECUTED', 10**9, executed([[], None, '']))",
    "another layout": "send('EXECUTED', 1, {'no': 'list'})",
    "too few responses": "send('EXECUTED', BATCH, executed())",
    "too many responses": "send('EXECUTED', BATCH, executed(*[[[], None, '']] * 2))",
    "a response that is none": "send('EXECUTED', BATCH, executed(5))",
    "outputs that are none": "send('EXECUTED', BATCH, executed([5, None, '']))",
    "a header too short": "send('EXECUTED', BATCH, executed([[['OUT', 11]], None, ''], block=block))",
    "a tensor beyond the region": "one(tensor(offset=1 << 40))",
    "a tensor before it": "one(tensor(offset=-64))",
    "a size without end": "one(tensor(size=1 << 60))",
    "a shape that does not fit": "one(tensor(shape=(1 << 40,)))",
    "a negative shape": "one(tensor(shape=(-2,)))",
    "a shape of text": "one(tensor(shape=('x',)))",
    "text of a shape that is none": "one(tensor(datatype=13, shape=('x',)))",
    "an unknown datatype": "one(tensor(datatype=99))",
    "memory we do not have": "one(tensor(memory=2))",
    "an error of another layout": "send('EXECUTED', BATCH, executed(error={'no': 'text'}))",
    "an error code that is none": "send('EXECUTED', BATCH, executed([[], [99, 'x', None], '']))",
    "parameters that are no JSON": "send('EXECUTED', BATCH, executed([[], None, '{']))",
    "parameters without end": "send('EXECUTED', BATCH, executed([[], None, '[' * 100_000]))",
    "a block freed twice": "connection.freed += [0, 0]; send('LOG', 0, [0, 'f', 1, 'x'])",
    "a block never allocated": "connection.freed += [1 << 30]; send('LOG', 0, [0, 'f', 1, 'x'])",
    "a log level that is none": "send('LOG', 0, [77, 'f', 1, 'x'])",
    "a result nobody asked for": "send('RESULT', 12345, [True, None])",
    "a command of the kernel's": "send('EXECUTE', 1, [0, None, []])",
    "a response of another layout": "send('RESPONSE', handle, 'x')",
    "a response beyond the region": "send('RESPONSE', handle, [1, block, [tensor(offset=1 << 40)], None, ''])",
    "a call of another layout": "send('INFER', 1, 'x')",
    "a metric of another layout": "send('METRIC_OP', 1, [1, 'get'])",
    "a metric without a layout": "send('METRIC_NEW', 1, None)",
    "a call with a lying tensor": "infer(tensor(size=1 << 40))",
}


@pytest.mark.parametrize("lie", LIES)
def test_its_requests_fail_and_the_server_lives(lab: Lab, script: Script, lie: str) -> None:
    restarts = script.instance.replacement.count
    events = RecordingInstrument()
    lab.server.instruments.add(events)
    script.value("1")
    lab.server.instruments.remove(events)
    ((_, batch_id, _, _),) = events.named("execute_started")
    error = script.fails(f"BATCH = {batch_id + 1}\n" + LINK + LIES[lie])
    assert isinstance(error, ModelError)
    assert error.message == "Stub process 'script_0_0' is not healthy."
    assert error.reason.startswith("The stub process of 'script_0_0' ended with signal SIGKILL (Killed). (")
    assert script.value("6 * 7") == 42
    assert script.instance.replacement.count == restarts + 1
    eventually(lambda: script.instance.inflight == {})


@pytest.mark.parametrize(
    "harmless",
    [
        "connection.send(NUMBER['RESPONSE'], 10**9, [1, None, [], None, ''])",  # of a request that is over
        "connection.send(NUMBER['INFER_CANCEL'], 10**9, [])",
        "connection.send(NUMBER['HELLO'], 0, [1, 'again', '', 0])",
    ],
)
def test_what_may_happen_honestly_is_ignored(script: Script, harmless: str) -> None:
    pid = script.pid
    assert script(LINK + harmless + "\nreturn [answer(OUT=np.float32([1]))]")["OUT"] == [1]
    assert script.value("2") == 2
    assert script.pid == pid


def test_a_call_that_names_no_function_is_refused(script: Script) -> None:
    for field in ("{}", "None", "[]", "'x'"):
        for command in ("METRIC_FAMILY_NEW", "METRIC_OP", "METRIC_NEW", "LOAD_MODEL"):
            code = f"""
            row = {{row.name: row for row in sys.modules["_pb_stub.wire.ipc_message"].COMMANDS}}["{command}"]
            try:
                sys.modules["_pb_stub.api.bridge"].current().call(row.body(*[{field}] * len(row.body._fields)))
            except Exception as error:
                return [answer(TEXT=np.array([type(error).__name__], dtype=object))]
            return [answer(TEXT=np.array(["accepted"], dtype=object))]
            """
            assert script(code)["TEXT"] == [b"BridgeError"], (command, field)


def test_one_liar_does_not_hurt_its_neighbours(lab: Lab) -> None:
    """Another model, and another instance of the same one."""
    script = lab.script("pair", config("CODE STRING 1", "OUT FP32 -1; TEXT STRING -1", count=2))
    other = lab.script("neighbour")
    pids = {int(i["pid"]) for i in script.model.instances()}
    waiting = other.infer("time.sleep(0.2); return [answer(OUT=np.float32([5]))]")
    script.fails(LINK + LIES["garbage"])
    assert next(waiting).outputs["OUT"].numpy() == [5]
    eventually(script.model.ready)
    assert len(pids & {int(i["pid"]) for i in script.model.instances()}) == 1
    lab.server.unload("pair")
    lab.server.unload("neighbour")


def test_responses_that_came_before_the_lie_arrive(lab: Lab) -> None:
    script = lab.script("stream", config("CODE STRING 1", "OUT FP32 -1", DECOUPLED))
    responses = script.responses(
        LINK + "s = request.get_response_sender()\n"
        "for n in range(3): s.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.float32([n]))]))\n"
        "sock.sendall(b'lies' * 100); time.sleep(600)"
    )
    assert [r.outputs["OUT"].numpy()[0] for r in responses[:-1]] == [0, 1, 2]
    assert isinstance(responses[-1].error, ModelError)
    lab.server.unload("stream")


def test_regions_that_lie_about_their_size(script: Script) -> None:
    """A region can be made larger by everyone who has it, never smaller: a smaller one would end its reader."""
    out = script(
        """
        fd = sys.modules["_pb_stub.api.bridge"].current().region._fd
        try:
            os.ftruncate(fd, 4096)
        except PermissionError:
            return [answer(OUT=np.ones(1 << 20, np.float32))]
        return [answer(OUT=np.zeros(1, np.float32))]
        """
    )["OUT"]
    assert np.array_equal(out, np.ones(1 << 20, np.float32))
