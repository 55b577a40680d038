"""A stub's main loop in the test's own process: its sockets and regions are real, and the test plays the kernel."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np

from tritonlab.stub._pb_stub.api import bridge as bridge_module
from tritonlab.stub._pb_stub.process.main_loop import MainLoop
from tritonlab.stub._pb_stub.process.model_context import ModelContext
from tritonlab.stub._pb_stub.process.stub_bridge import StubBridge
from tritonlab.stub._pb_stub.wire.connection import Connection
from tritonlab.stub._pb_stub.wire.ipc_message import BY_NUMBER
from tritonlab.stub._pb_stub.wire.message_bodies import Entry, Executed, Initialize, Output, TensorHeader
from tritonlab.stub._pb_stub.wire.shm_manager import Region, RegionReader, create_region_file
from tritonlab.stub._pb_stub.wire.tensor_block import pack_tensors

MIB = 1 << 20
FP32 = 11


class StubSide:
    """A stub and its kernel: `loop`, `bridge` and `context` are the stub's; `kernel`, `region` and `reader` the other
    end of its link.
    """

    def __init__(self, stub_limit: int | None = None) -> None:
        self._fds = [create_region_file("kernel"), create_region_file("stub")]
        self._sockets = [*socket.socketpair(), *socket.socketpair()]
        self.region = Region(self._fds[0], MIB)
        self.reader = RegionReader(self._fds[1])
        self.kernel = Connection(self._sockets[0], on_freed=self.region.free)
        stub_region = Region(self._fds[1], MIB, MIB, stub_limit)
        connection = Connection(self._sockets[1], on_freed=stub_region.free, unpacks=True)
        self.bridge = StubBridge(connection, stub_region, RegionReader(self._fds[0]))
        self.bridge.instance_name = "m_0_0"
        self.bridge.phase = "execute"
        self.context = ModelContext(self.bridge, "/backend")
        self.context.model_path = "/repository/m/1/model.py"
        self.loop = MainLoop(self.bridge, self.context, Connection(self._sockets[2]))
        self.tells_failures = False
        #: the bodies of RAISED, as (file, line, text)
        self.raised: list[tuple[str, int, str]] = []
        self.logged: list[tuple[int, str, int, str]] = []
        self._before = bridge_module.current()
        bridge_module.install(self.bridge)

    def serve(self, model: Any, outputs: tuple[str, ...] = ("OUT",), *, decoupled: bool = False) -> None:
        """Do what IMPORT and INITIALIZE would have done."""
        args = {"model_name": "m", "model_version": "3", "model_instance_name": "m_0_0"}
        self.context._module = type("Module", (), {"TritonPythonModel": lambda: model})
        self.loop._initialize(Initialize(args, list(outputs), decoupled, self.tells_failures))

    def entry(self, handle: int, *inputs: tuple[str, np.ndarray[Any, Any]], **more: Any) -> Entry:
        """Return a request of an EXECUTE, its tensors still as wires."""
        wires: Any = [(name, FP32, list(array.shape), array) for name, array in inputs]
        return Entry(handle, more.get("id", ""), 0, 0, 0, more.get("parameters", ""), more.get("outputs"), wires, None)

    def execute(self, *entries: Entry, ident: int = 1) -> Executed:
        """Run the batch."""
        wires: Any = [wire for entry in entries for wire in entry.tensors]
        block, headers = pack_tensors(self.region, wires)
        remaining = iter(headers)
        placed = [entry._replace(tensors=[next(remaining) for _ in entry.tensors]) for entry in entries]
        self.loop._executor.execute(ident, block, placed)
        executed: Executed = self.expect("EXECUTED", ident)
        outputs = [Output(*output) if isinstance(output, list) else output for output in executed.outputs]
        return executed._replace(outputs=outputs)

    def expect(self, command: str, ident: int) -> Any:
        """Return the body of the stub's next message, which must be this one."""
        message = self.kernel.receive(timeout=60)
        while message is not None and (name := BY_NUMBER[message[0]].name) in ("RAISED", "LOG") and name != command:
            (self.raised if name == "RAISED" else self.logged).append(tuple(message[2]))
            message = self.kernel.receive(timeout=60)
        assert message is not None
        assert (BY_NUMBER[message[0]].name, message[1]) == (command, ident)
        return BY_NUMBER[message[0]].read(message[2])

    def output(self, row: Any) -> np.ndarray[Any, Any]:
        header = TensorHeader._make(row)
        return np.frombuffer(self.reader.view(header.offset, header.size), np.float32).reshape(header.shape)

    def close(self) -> None:
        bridge_module.install(self._before)
        for sock in self._sockets:
            sock.close()
        for fd in self._fds:
            os.close(fd)
