"""Damaged models: what each server says of them, and which names of directories are versions."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.damaged import CONFIG, MODEL, POLLED, REFUSED, Entry, write_files
from tritonlab.tools.deploy.preflight.finding import Prediction
from tritonlab.tools.deploy.preflight.judge import judge, subject_in

from .clients import Client
from .real_client import RealClient
from .reference import ReferenceServer
from .rules import rule
from .scripts import eventually

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


TAKEN = "def deserialize_bytes_tensor(x): pass\ndef serialize_byte_tensor(x): pass\n"
PLACED = {
    "package": f"{UTILS[:-3]}/__init__.py",
    "library": f"{UTILS[:-3]}.so",
    "bytecode": f"{UTILS[:-3]}.pyc",
    "above": "triton_python_backend_utils.py",
}
#: Modules under the name of the one that Triton's stub imports: its files, and the error; empty if they do no harm.
OWN_UTILS: dict[str, tuple[dict[str, Entry], str]] = {
    "empty": ({UTILS: ""}, f"{LACKS} 'deserialize_bytes_tensor'"),
    "one": ({UTILS: "def deserialize_bytes_tensor(x): pass\n"}, f"{LACKS} 'serialize_byte_tensor'"),
    "two": ({UTILS: TAKEN}, f"{LACKS} 'ModelConfig'"),
    "three": ({UTILS: f"{TAKEN}class ModelConfig: pass\n"}, "TypeError: ModelConfig() takes no arguments"),
    "whole": ({UTILS: f"{TAKEN}class ModelConfig:\n    def __init__(self, config): pass\n"}, ""),
    "syntax": ({UTILS: "def ("}, "SyntaxError: invalid syntax (triton_python_backend_utils.py, line 1)"),
    "package": ({PLACED["package"]: ""}, f"{LACKS} 'deserialize_bytes_tensor'"),
    "namespace": ({f"{UTILS[:-3]}/x.txt": ""}, ""),
    "above": ({PLACED["above"]: ""}, f"{LACKS} 'deserialize_bytes_tensor'"),
    "below": ({PLACED["above"]: "", UTILS: f"{TAKEN}ModelConfig = dict\n"}, "ValueError: dictionary update sequence"),
    "library": ({PLACED["library"]: "x"}, "triton_python_backend_utils.so: file too short"),
    "bytecode": ({PLACED["bytecode"]: "x"}, "ImportError: bad magic number in 'triton_python_backend_utils': b'x'"),
    "compiled": ({"1/c_python_backend_utils.py": "1 / 0\n"}, ""),
    "compiled_package": ({"1/c_python_backend_utils/__init__.py": "1 / 0\n"}, ""),
    "compiled_library": ({"1/c_python_backend_utils.so": "x"}, ""),
}


@rule("2.1.9")
def test_modules_of_the_model_under_the_names_of_the_stubs(side: Client) -> None:
    for name, (files, _) in OWN_UTILS.items():
        write_files(side.repository / f"own_{name}", {"config.pbtxt": CONFIG, "1/model.py": MODEL, **files})
    names = [f"own_{name}" for name in OWN_UTILS]
    with ThreadPoolExecutor(6) as pool:
        failures = dict(zip(OWN_UTILS, pool.map(side.load, names), strict=True))
    for name, (_, says) in OWN_UTILS.items():
        failure = failures[name]
        assert says in failure.text if failure else not says, (name, failure)
        side.unload(f"own_{name}")


def test_preflight_predicts_what_such_modules_do(tmp_path: Path) -> None:
    """What the servers say of them above. Not seen are the inside of a library and the arguments of a ModelConfig; an
    export leaves byte-code out."""
    for name, (files, says) in OWN_UTILS.items():
        write_files(tmp_path / name, {"config.pbtxt": CONFIG, "1/model.py": MODEL, **files})
        found = [each for each in judge(subject_in(tmp_path / name)).findings if each.row == "P16"]
        expected = [Prediction.LOAD] * bool(says)
        if name in ("three", "below", "library", "whole"):
            expected = [Prediction.ATTENTION]
        assert [each.outcome for each in found] == (expected if name != "bytecode" else []), name


#: Directories that P15 names, next to version 1, and whether the server lives on after a load. A load that hangs keeps
#: one of the few threads for it.
STRAY = {"2.bak": True, "2024-01-01": True, "9223372036854775808": False}


@rule("2.1.1")
def test_preflight_predicts_what_stray_directories_do(
    reference_server: Callable[[Path], ReferenceServer], tmp_path: Path
) -> None:
    (tmp_path / "served").mkdir()
    server = reference_server(tmp_path / "served")
    client = RealClient(server)
    with ThreadPoolExecutor(len(STRAY)) as pool, server:  # whose end ends the loads, too
        for number, (stray, survives) in enumerate(STRAY.items()):
            directory = server.repository / f"stray{number}"
            write_files(directory, {"config.pbtxt": CONFIG, "1/model.py": MODEL, f"{stray}/model.py": MODEL})
            assert [(each.row, each.outcome) for each in judge(subject_in(directory)).findings] == [
                ("P15", Prediction.LOAD)
            ]
            load = pool.submit(client.load, directory.name)
            if survives:
                missing = f"Python model file not found in '{directory}/"
                eventually(partial(_is_logged, server, missing))
                assert not load.done() and not client.ready(directory.name)
            else:
                assert load.result(30) is not None and not server.live()
                eventually(partial(_is_logged, server, "stoll"))
    client.close()


def _is_logged(server: ReferenceServer, text: str) -> bool:
    return text in server.log()


@rule("5.5.8")
def test_levels_without_end(side: Client) -> None:
    """No loop goes over the levels of a configuration."""
    batching = "dynamic_batching { priority_levels: 18446744073709551615 default_priority_level: 4294967296 }"
    config = f"max_batch_size: 4\n{CONFIG}{batching}"
    assert side.placed("levels", {"config.pbtxt": config, "1/model.py": MODEL}) is None
    for priority in (0, 1, (1 << 63) - 1):
        assert side.infer("levels", {"IN": np.ones((1, 1), np.float32)}, priority=priority).outputs["OUT"] == 1
    side.unload("levels")
