from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: As `import kserve` or `import mlserver` would: a file of its own with messages of the same names, and files of the
#: names that tritonclient's have.
OTHERS = """
from google.protobuf import descriptor_pb2, descriptor_pool

def register_others():
    for name in ("grpc_predict_v2.proto", "grpc_service.proto", "model_config.proto"):
        file = descriptor_pb2.FileDescriptorProto(name=name, package="inference", syntax="proto3")
        for message in {"g": ("ServerLiveRequest", "ModelInferRequest"), "m": ("ModelConfig",)}[name[0]]:
            if name != "grpc_service.proto":
                file.message_type.add(name=message).field.add(name="other", number=1, type=9, label=1)
        descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
"""
SERVES = """
import numpy, tritonlab
from tests.models import answers
m = tritonlab.load("m", answers("x * 2"), inputs=["IN:FP32[1]"], outputs=["OUT:FP32[1]"])
ports = tritonlab.serve(http_port=0, grpc_port=0, metrics=False)
for address in ("http://" + ports.http, "grpc://" + ports.grpc):
    with tritonlab.connect(address, headers=ports.headers) as server:
        print(server.model("m")(IN=numpy.ones(1, "f"))["OUT"], server.model("m").config()["name"])
"""


@pytest.mark.parametrize("implementation", ["upb", "python"])
@pytest.mark.parametrize("others_come_first", [True, False])
def test_messages_of_the_same_names_may_be_registered(others_come_first: bool, implementation: str) -> None:
    """protobuf says "Couldn't build proto file into descriptor pool" of the second ones in one pool."""
    steps = ["register_others()", SERVES]
    code = "\n".join([OTHERS, *(steps if others_come_first else reversed(steps))])
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["[2.] m"] * 2


def test_what_needs_no_grpc_imports_none_of_it() -> None:
    script = f"""{SERVES.replace("metrics=False", "metrics=True, grpc=False").replace(', "grpc://" + ports.grpc', ',')}
import sys
print([name for name in sys.modules if name in ("grpc", "tritonclient.grpc")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-2:] == ["[2.] m", "[]"], done.stderr
