"""Triton's own protobuf messages, of its configuration and of its gRPC service, as `tritonclient` ships them, in a
descriptor pool of their own.

protobuf's default pool refuses a second file with a message of the same name, and the packages `kserve` and `mlserver`
have their own files for the same service: the second import would fail. The files are read, not imported, because
`tritonclient.grpc.__init__` imports the whole gRPC client: measured 130 to 230 ms.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
from types import SimpleNamespace
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message

_pool = descriptor_pool.DescriptorPool()
_SERIALIZED = re.compile(r"""AddSerializedFile\(\s*(b(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))""")


def load_messages(module: str) -> Any:
    """Return the names of a module that protoc has generated: its messages, enums and their values, and `DESCRIPTOR`.
    Load the modules that it imports first. Raises ImportError without tritonclient."""
    package = importlib.util.find_spec("tritonclient")
    if package is None or not package.submodule_search_locations:
        raise ImportError("tritonlab needs tritonclient[grpc] for the messages of Triton")
    path = os.path.join(package.submodule_search_locations[0], "grpc", f"{module}.py")
    with open(path, encoding="utf-8") as file:
        found = _SERIALIZED.search(file.read())
    if found is None:
        raise ImportError(f"{path} is not as protoc writes it: install another version of tritonclient")
    described = _pool.AddSerializedFile(ast.literal_eval(found[1]))
    names: dict[str, Any] = {name: _class(each) for name, each in described.message_types_by_name.items()}
    for name, enum in described.enum_types_by_name.items():
        names |= {name: EnumTypeWrapper(enum), **{value.name: value.number for value in enum.values}}
    return SimpleNamespace(**names, DESCRIPTOR=described)


def _class(message: Descriptor) -> type[Message]:
    """Return the class of a message with its nested classes, which protobuf's Python implementation does not set."""
    found = message_factory.GetMessageClass(message)
    for name, inner in message.nested_types_by_name.items():
        if not hasattr(found, name):
            setattr(found, name, _class(inner))
    return found
