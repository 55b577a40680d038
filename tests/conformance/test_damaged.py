"""Damaged models: what each server says of them, and which names of directories are versions."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.damaged import CONFIG, MODEL, POLLED, REFUSED, Entry, write_files

from .clients import Client
from .rules import rule

UTILS = "1/triton_python_backend_utils.py"
LACKS = "AttributeError: module 'triton_python_backend_utils' has no attribute"


@rule("2.5.3", "2.1.1")
@pytest.mark.parametrize("name", POLLED)
def test_files_that_cannot_be_read(side: Client, name: str) -> None:
    write_files(side.repository / name, POLLED[name].files)
    failure = side.load(name)
    assert failure is not None
    assert failure.code == "INTERNAL"
    assert failure.text == f"failed to load '{name}', failed to poll from model repository"
    assert POLLED[name].says in failure.reason
    side.unload(name)


@rule("2.5.2", "2.1.1", "2.1.9", "2.10.3")
def test_models_that_cannot_be_loaded(side: Client) -> None:
    for name, damaged in REFUSED.items():
        write_files(side.repository / name, damaged.files)
    with ThreadPoolExecutor(6) as pool:
        failures = dict(zip(REFUSED, pool.map(side.load, REFUSED), strict=True))
    for name, damaged in REFUSED.items():
        failure = failures[name]
        assert failure is not None, name
        assert failure.code == "INVALID_ARG" and f"load failed for model '{name}': " in failure.text
        assert damaged.says in failure.text
        side.unload(name)


#: Other directories of a model whose newest version is 3, by what they hold. Those with a higher number hang 2.51 for
#: ever, and one of more than 64 bits ends it (measured).
IGNORED: dict[str, Entry] = {
    "007/x": "",
    "0x9/x": "",
    "2.bak/x": "",
    "1.5/x": "",
    " 2/x": "",
    "-4/x": "",
    "3_old/x": "",
    "v9/x": "",
    "\u0663/x": "",
    "9.bak": "a file",
    "warmup/x": "",
    "data/link": lambda path: os.symlink("/nowhere", path),
}


@rule("2.1.1")
def test_directories_that_do_not_count(side: Client) -> None:
    write_files(side.repository / "beside", {"config.pbtxt": CONFIG, "3/model.py": MODEL, **IGNORED})
    assert side.load("beside") is None
    assert [(row["name"], row["version"]) for row in side.index(ready=True) if row["name"] == "beside"] == [
        ("beside", "3")
    ]
    side.unload("beside")


@rule("2.1.9")
@pytest.mark.parametrize(
    ("source", "lacks"),
    [
        ("def deserialize_bytes_tensor(x): pass\n", "serialize_byte_tensor"),
        ("def serialize_byte_tensor(x): pass\nclass ModelConfig: pass\n", "deserialize_bytes_tensor"),
        ("def deserialize_bytes_tensor(x): pass\ndef serialize_byte_tensor(x): pass\n", "ModelConfig"),
    ],
)
def test_a_module_of_the_model_under_the_name_of_tritons(side: Client, source: str, lacks: str) -> None:
    failure = side.placed("own", {"config.pbtxt": CONFIG, "1/model.py": MODEL, UTILS: source})
    assert failure is not None and failure.text.endswith(f"Internal: {LACKS} '{lacks}';\n")
    side.unload("own")


@rule("2.1.9")
def test_a_module_under_the_name_of_the_compiled_one_is_ignored(side: Client) -> None:
    files = {"config.pbtxt": CONFIG, "1/model.py": MODEL, "1/c_python_backend_utils.py": "1 / 0\n"}
    assert side.placed("compiled", files) is None
    side.unload("compiled")


@rule("5.5.8")
def test_levels_without_end(side: Client) -> None:
    """No loop goes over the levels of a configuration."""
    batching = "dynamic_batching { priority_levels: 18446744073709551615 default_priority_level: 4294967296 }"
    config = f"max_batch_size: 4\n{CONFIG}{batching}"
    assert side.placed("levels", {"config.pbtxt": config, "1/model.py": MODEL}) is None
    for priority in (0, 1, (1 << 63) - 1):
        assert side.infer("levels", {"IN": np.ones((1, 1), np.float32)}, priority=priority).outputs["OUT"] == 1
    side.unload("levels")
