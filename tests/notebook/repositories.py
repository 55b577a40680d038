"""A model repository as people keep them, with what a notebook cannot hold as it is: other line breaks and encodings,
modes, links, placeholders and weights."""

from __future__ import annotations

import os
from pathlib import Path

PRE = b"""\
# -*- coding: latin-1 -*-
# \xe9tape 1: scales what comes
import os

import numpy as np
import triton_python_backend_utils as pb_utils
from helper import scaled


class TritonPythonModel:
    def initialize(self, args):
        with open(os.path.join(os.path.dirname(__file__), "weights.txt")) as file:
            self.factor = np.float32(file.read())

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("T", scaled(x, self.factor))]) for x in inputs]
"""
#: other line breaks, blanks at ends of lines, and blank lines at both ends
HELPER = b"\r\n\r\ndef scaled(x, factor):   \r\n\treturn x * factor\r\n\r\n\r\n"
POST = b"""\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "T").as_numpy() for request in requests]
        \x20
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + 1)]) for x in inputs]"""


def config(name: str, entry: str, result: str) -> bytes:
    return f"""\
# what the {name} step takes\t
name: "{name}"
backend: "python"
input [ {{ name: "{entry}" data_type: TYPE_FP32 dims: [ 2 ] }} ]

output [ {{ name: "{result}" data_type: TYPE_FP32 dims: [ 2 ] }} ]  # and gives
""".encode()


ENSEMBLE = b"""\
platform: "ensemble"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]
ensemble_scheduling {
  step [
    { model_name: "pre" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "T" value: "t" } },
    { model_name: "post" model_version: -1 input_map { key: "T" value: "t" } output_map { key: "Y" value: "Y" } }
  ]
}
"""
TEMPLATE = b'backend: "python"\nmax_batch_size: ${max_batch_size}\n'


def write_repository(root: Path) -> Path:
    """Write a repository of two Python models, the ensemble of them, and two models that do not load."""
    files = {
        "README.md": b"# models\n",
        "all/1/.tmp": b"",
        "all/config.pbtxt": ENSEMBLE,
        "post/1/model.py": POST,
        "post/config.pbtxt": config("post", "T", "Y").replace(b"\n", b"\r\n"),
        "post/labels.txt": b"one\ntwo",
        "pre/1/helper.py": HELPER,
        "pre/1/model.py": PRE,
        "pre/1/weights.txt": b"2",
        "pre/config.pbtxt": config("pre", "X", "T"),
        "pre/notes.md": b"\xff not a text of UTF-8\n",
        "resnet/1/model.plan": b"\0plan",
        "resnet/config.pbtxt": b'platform: "tensorrt_plan"\nmax_batch_size: 8\n',
        "template/1/model.py": POST,
        "template/config.pbtxt": TEMPLATE,
    }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    (root / "pre/1/model.py").chmod(0o755)
    (root / "pre/1/weights.txt").chmod(0o640)
    (root / "pre/1/latest").symlink_to("weights.txt")
    (root / "pre/draft").mkdir()
    return root


#: What a stand-in needs to know of the model that does not load for want of its backend.
DESCRIBED = b"""\
platform: "tensorrt_plan"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] } ]
"""


def contents(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Return the entries of a directory: what each is, its mode, and its content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            place = path.relative_to(root).as_posix()
            if path.is_symlink():
                found[place] = ("link", 0, os.fsencode(os.readlink(path)))
            elif path.is_dir():
                found[place] = ("directory", 0, b"")
            else:
                found[place] = ("file", path.stat().st_mode, path.read_bytes())
    return found
