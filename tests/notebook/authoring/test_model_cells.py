from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from IPython.utils.text import DollarFormatter

from tritonlab.notebook.authoring.cell_text import split_cell
from tritonlab.notebook.authoring.config_options import ConfigOptions
from tritonlab.notebook.authoring.config_text import ConfigText
from tritonlab.notebook.authoring.draft import Draft
from tritonlab.notebook.authoring.model_cells import config_line, model_line

SOURCE = "class TritonPythonModel:\n    pass\n"


def draft_of(**keywords: Any) -> Draft:
    options = ConfigOptions.from_keywords(**keywords.pop("options", {}))
    call = {"config": None, "files": None, "version": None, **keywords}
    return Draft("m").with_changes(SOURCE, options=options, body=None, **call)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({}, "%%triton_model m"),
        (
            {"inputs": ["IN:FP32[-1,4]", "B:BOOL[1]?"], "outputs": "OUT:FP32[-1]", "max_batch_size": 8},
            "%%triton_model m --max-batch-size 8 --input IN:FP32[-1,4] B:BOOL[1]? \\\n    --output OUT:FP32[-1]",
        ),
        ({"dynamic_batching": True}, "%%triton_model m --dynamic-batching"),
        (
            {"dynamic_batching": 0, "preferred_batch_size": [4, 8], "decoupled": True},
            "%%triton_model m --dynamic-batching 0 --decoupled --preferred-batch-size 4 8",
        ),
        ({"instances": 2, "kind": "gpu", "gpus": [0, 1]}, "%%triton_model m --instances 2 --kind gpu --gpus 0 1"),
        ({"parameters": {"a": "b c", "d": "it's"}}, """%%triton_model m --param 'a=b c' 'd=it'"'"'s'"""),
    ],
)
def test_the_options_of_the_last_source(options: dict[str, Any], line: str) -> None:
    assert model_line(draft_of(options=options)) == (line, [])


def test_config_files_and_version(tmp_path: Path) -> None:
    weights, config = tmp_path / "weights.bin", tmp_path / "my config.pbtxt"
    weights.write_bytes(b"1")
    config.write_text("max_batch_size: 4\n")
    line, left_out = model_line(
        draft_of(config=config, files={"weights.bin": weights, "other.bin": weights, "b.txt": b"2"}, version=3)
    )
    assert shlex.split(split_cell(line)[0]) == [
        "%%triton_model", "m", "--config", str(config), "--file", str(weights), "--version", "3"
    ]  # fmt: skip
    assert left_out == ["other.bin", "b.txt"]


def test_a_config_that_is_not_a_file_is_written_as_a_text() -> None:
    draft = draft_of(config={"parameters": {"a": {"string_value": "b  c"}}})
    line, _ = model_line(draft)
    line = split_cell(line)[0]
    text = shlex.split(DollarFormatter().vformat(line, args=[], kwargs={}))[-1]  # as IPython reads it
    assert Draft("m").with_config(text).given_config.message == draft.given_config.message


def test_the_cell_of_a_model_of_another_backend(tmp_path: Path) -> None:
    (tmp_path / "head.onnx").write_bytes(b"1")
    draft = Draft("m").with_cell_config(ConfigText("max_batch_size: 4\n"), [tmp_path / "head.onnx"])
    assert shlex.split(split_cell(config_line(draft))[0]) == [
        "%%triton_config",
        "m",
        "--file",
        str(tmp_path / "head.onnx"),
    ]
    assert draft.loadable and 'backend: "onnxruntime"' in draft.config_file
    assert 'default_model_filename: "head.onnx"' in draft.config_file
    assert not draft.with_cell_config(ConfigText("max_batch_size: 4\n")).loadable
    with_source = draft.with_source(SOURCE)
    assert "onnx" not in with_source.config_file and "1/head.onnx" in with_source.tree
