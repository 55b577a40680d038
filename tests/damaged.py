"""A corpus of damaged models: files that no server can load, each with words of the sentence that says why.

`CORPUS` is what real accidents leave: truncated and binary files, wrong encodings, numbers that fit nowhere, links in a
circle, pipes, archives that end early. `write` makes a repository of them next to a good model.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.models import answers

GOOD = "good"
MODEL = answers("x")
CONFIG = """backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]
instance_group [{ kind: KIND_CPU }]
"""
_ENVIRONMENT = (
    'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }\n'
)

#: What makes an entry of a directory that is not a file with a text.
Special = Callable[[Path], object]
Entry = str | bytes | Special


class Damaged(NamedTuple):
    """The files of one model, by path, and words of the error that its load ends in."""

    says: str
    files: dict[str, Entry]


def write(repository: Path) -> Path:
    """Write the good model and the whole corpus, and return the repository."""
    write_files(repository / GOOD, {"config.pbtxt": CONFIG, "1/model.py": MODEL})
    for name, damaged in CORPUS.items():
        write_files(repository / name, damaged.files)
    return repository


def write_files(directory: Path, files: Mapping[str, Entry]) -> None:
    """Write the files of one model."""
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(target)
        else:
            target.write_bytes(content.encode() if isinstance(content, str) else content)


def _link(to: str) -> Special:
    return lambda path: os.symlink(to, path)


def _archive(*names: str, kind: bytes = tarfile.REGTYPE, to: str = "", cut: int | None = None) -> bytes:
    """Return a tar.gz with bin/activate and members of these names, or its first `cut` bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("bin/activate"))
        for name in names:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, to
            tar.addfile(member)
    return packed.getvalue()[:cut]


def _config(text: str | bytes | Special, says: str, **more: Entry) -> Damaged:
    return Damaged(says, {"config.pbtxt": text, "1/model.py": MODEL, **more})


def _source(source: str | bytes | Special, says: str) -> Damaged:
    return Damaged(says, {"config.pbtxt": CONFIG, "1/model.py": source})


def _environment(archive: str | bytes | Special, says: str) -> Damaged:
    return _config(CONFIG + _ENVIRONMENT, says, **{"env.tar.gz": archive})


def _label(name: str, says: str, **more: Entry) -> Damaged:
    return _config(CONFIG.replace("dims: [1] }]\ninst", f'dims: [1] label_filename: "{name}" }}]\ninst'), says, **more)


def _version(name: str, says: str) -> Damaged:
    return _config(CONFIG, says, **{f"{name}/model.py": MODEL})


_WARMUP = (
    'model_warmup [{ name: "w" batch_size: 1 inputs { key: "IN" '
    'value { data_type: TYPE_FP32 dims: [1] input_data_file: "f" } } }]\n'
)
_STATE = (
    'sequence_batching { state [{ input_name: "a" output_name: "b" data_type: TYPE_FP32 dims: [1] '
    'initial_state: { name: "i" data_type: TYPE_FP32 dims: [1] data_file: "f" } }] }\n'
)
_PROTO = "failed to read text proto from"
_STAT = "failed to stat file"
_SYNTAX = "SyntaxError: "

#: What Triton refuses, too, when it reads the model's files: the sentence begins as its own.
POLLED: dict[str, Damaged] = {
    "number_of_no_type": _config(CONFIG.replace("TYPE_FP32", "9" * 20, 1), _PROTO),
    "number_of_64_bits": _config(CONFIG.replace("TYPE_FP32", "18446744073709551615", 1), _PROTO),
    "negative_number": _config("max_batch_size: -9223372036854775809\n" + CONFIG, _PROTO),
    "no_number": _config("max_batch_size: 1e400\n" + CONFIG, _PROTO),
    "type_not_utf8": _config(CONFIG.encode().replace(b"TYPE_FP32", b"\xffYPE", 1), _PROTO),
    "nul": _config(CONFIG + "\0", _PROTO),
    "nul_first": _config("\0" + CONFIG, _PROTO),
    "bom": _config("\ufeff" + CONFIG, _PROTO),
    "utf16": _config(CONFIG.encode("utf-16"), _PROTO),
    "truncated": _config(CONFIG[:60], _PROTO),
    "binary": _config(bytes(range(256)), _PROTO),
    "nested": _config(CONFIG + "a {" * 5000, _PROTO),
    "nested_lists": _config(CONFIG + "parameters " + "[" * 3000, _PROTO),
    "unknown_field": _config(CONFIG + "max_batchsize: 4\n", _PROTO),
    "field_twice": _config('name: "a" name: "b"\n' + CONFIG, _PROTO),
    "merge_conflict": _config("<<<<<<< HEAD\n" + CONFIG + "=======\n" + CONFIG + ">>>>>>> main\n", _PROTO),
    "html": _config("<!DOCTYPE html><html><body>404</body></html>", _PROTO),
    "config_in_a_circle": _config(_link("config.pbtxt"), _STAT),
    "config_to_nowhere": _config(_link("/nowhere"), _STAT),
    "version_in_a_circle": Damaged(_STAT, {"config.pbtxt": CONFIG, "1": _link("1")}),
    "other_name": _config('name: "another"\n' + CONFIG, "unexpected directory name"),
    "negative_batch": _config("max_batch_size: -1\n" + CONFIG, "must be non-negative value"),
    "agent": _config(CONFIG + 'model_repository_agents { agents [{ name: "nope" }] }', "unable to find"),
}
#: What Triton refuses, too, when it loads the version.
REFUSED: dict[str, Damaged] = {
    "no_version": Damaged("at least one version must be available", {"config.pbtxt": CONFIG}),
    "version_is_a_file": Damaged("at least one version must be available", {"config.pbtxt": CONFIG, "1": "x"}),
    "label_missing": _label("labels.txt", "failed to open text file for read"),
    "environment_missing": _config(CONFIG + _ENVIRONMENT, "Failed to get the canonical path"),
    "backend_unknown": _config(CONFIG.replace('"python"', '"nope"'), "unable to find backend library"),
    "source_binary": _source(bytes(range(256)), _SYNTAX),
    "source_empty": _source("", "has no attribute 'TritonPythonModel'"),
    "source_encoding": _source("# -*- coding: nope -*-\n" + MODEL, "unknown encoding: nope"),
    "source_no_text_encoding": _source("# -*- coding: rot13 -*-\n" + MODEL, "is not a text encoding"),
    "source_utf16": _source(MODEL.encode("utf-16"), _SYNTAX),
    "source_latin1": _source(b'x = "\xe9"\n' + MODEL.encode(), "codec can't decode byte 0xe9"),
    "source_nested": _source("x = " + "(" * 3000 + ")" * 3000 + "\n" + MODEL, "too many nested parentheses"),
    "source_minus": _source("x = " + "-" * 100_000 + "1\n" + MODEL, "MemoryError"),
    "source_sum": _source("x = " + "+".join(["1"] * 30_000) + "\n" + MODEL, "RecursionError"),
    "source_directory": Damaged("No module named", {"config.pbtxt": CONFIG, "1/model.py/x": ""}),
    "utils_of_its_own": _config(
        CONFIG,
        "module 'triton_python_backend_utils' has no attribute 'deserialize_bytes_tensor'",
        **{"1/triton_python_backend_utils.py": "class Tensor: pass\n"},
    ),
}
#: At these Triton 2.51 hangs or ends, or it takes what is refused here.
HERE: dict[str, Damaged] = {
    "config_directory": Damaged(_PROTO, {"config.pbtxt/x": "", "1/model.py": MODEL}),
    "config_pipe": _config(os.mkfifo, _PROTO),
    "type_99": _config(CONFIG.replace("TYPE_FP32", "99", 1), "99"),
    "instances_without_end": _config(CONFIG.replace("KIND_CPU", "KIND_CPU count: 2147483647"), "10000 can be started"),
    "candidates_without_end": _config(
        CONFIG + "sequence_batching { oldest { max_candidate_sequences: 2147483647 } }\n", "1048576 can be kept"
    ),
    "slots_without_end": _config(
        CONFIG + "max_batch_size: 2147483647\nsequence_batching { }\n", "1048576 can be kept"
    ),
    "state_without_end": _config(
        CONFIG + 'sequence_batching { state [{ input_name: "a" output_name: "b" data_type: TYPE_FP32 '
        "dims: [9223372036854775807] initial_state: "
        '{ name: "i" data_type: TYPE_FP32 dims: [9223372036854775807] zero_data: true } }] }\n',
        "too big",
    ),
    "kind_99": _config(CONFIG.replace("KIND_CPU", "99"), "99"),
    "label_directory": _label("1", "Is a directory"),
    "label_pipe": _label("pipe", "failed to open text file for read", pipe=os.mkfifo),
    "label_endless": _label("zero", "outside model directory", zero=_link("/dev/zero")),
    "label_nul": _label(r"a\000b", "null byte"),
    "label_in_a_circle": _label("1/loop", "failed to open text file for read", **{"1/loop": _link("loop")}),
    "environment_cut": _environment(_archive(*map(str, range(999)), cut=1000), "env.tar.gz"),
    "environment_nul": _config(CONFIG + _ENVIRONMENT.replace("env.tar", r"\000"), "Failed to get the canonical path"),
    "environment_deep": _environment(_archive("a/" * 3000 + "x"), "directories deep"),
    "environment_absolute": _environment(_archive("/x"), "absolute path"),
    "environment_above": _environment(_archive("../x"), "'..' in its path"),
    "environment_device": _environment(_archive("x", kind=tarfile.CHRTYPE), "is a device or a pipe"),
    "environment_link_out": _environment(_archive("x", kind=tarfile.SYMTYPE, to="/etc"), "which is outside"),
    "environment_hard_link": _environment(_archive("x", kind=tarfile.LNKTYPE, to="y"), "is a hard link"),
    "environment_text": _environment("no archive", "archive_read_open_filename() failed"),
    "environment_pipe": _environment(os.mkfifo, "archive_read_open_filename() failed"),
    "environment_file_as_directory": _environment(_archive("a", "a/b"), "cannot be unpacked"),
    "warmup_pipe": _config(CONFIG + _WARMUP, "failed to open text file for read", **{"warmup/f": os.mkfifo}),
    "warmup_endless": _config(
        CONFIG + _WARMUP, "failed to open text file for read", **{"warmup/f": _link("/dev/zero")}
    ),
    "state_pipe": _config(CONFIG + _STATE, "failed to open text file for read", **{"initial_state/f": os.mkfifo}),
    "state_endless": _config(
        CONFIG + _STATE, "failed to open text file for read", **{"initial_state/f": _link("/dev/zero")}
    ),
    "source_missing": Damaged("Python model file not found", {"config.pbtxt": CONFIG, "1/other.py": MODEL}),
    "source_in_a_circle": _source(_link("model.py"), "Python model file not found"),
    "source_pipe": _source(os.mkfifo, "No module named"),
    "version_backup": _version("2.bak", "'2.bak' as version 2"),
    "version_blank": _version(" 4", "' 4' as version 4"),
    "version_of_65_bits": _version("18446744073709551616", "no number of 64 bits"),
}
CORPUS = {**POLLED, **REFUSED, **HERE}
