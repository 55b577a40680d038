"""Loads of models with files that come with the request, in place of files of the model directory."""

from __future__ import annotations

import pytest

from .clients import Client
from .models import ADD_SUB
from .real_client import RealClient
from .rules import rule
from .test_load import ANSWERING, answer_of

LOADED_CONFIG = (
    '{"backend": "python", "input": [{"name": "IN", "data_type": "TYPE_INT32", "dims": [1]}],'
    ' "output": [{"name": "OUT", "data_type": "TYPE_STRING", "dims": [1]}]}'
)
#: Answers with what its directory holds, and the text of its config.pbtxt.
LISTING = ANSWERING.format(
    "root = args['model_repository']\n"
    "        found = [os.path.relpath(os.path.join(d, f), root) for d, _, files in os.walk(root) for f in files]\n"
    "        text = open(root + '/config.pbtxt').read()\n"
    "        self.answer = [sorted(f for f in found if not f.endswith('.pyc')), text]"
).encode()
MODEL = "file:1/model.py"
POLL_FAILED = "failed to load 'thin_air', failed to poll from model repository"


@rule("5.11.3")
@pytest.mark.parametrize(
    "path", ["1/model.py", "/1/model.py", "//1/model.py", "./1/model.py", "1//model.py", "2/../1/model.py"]
)
def test_files_sent_with_the_load_replace_the_directory(side: Client, path: str) -> None:
    assert side.load("thin_air", LOADED_CONFIG, {f"file:{path}": LISTING}) is None
    files, text = answer_of(side, "thin_air")
    assert files == ["1/model.py", "config.pbtxt"]
    assert 'backend: "python"' in text and 'name: "thin_air"' not in text
    side.unload("thin_air")


@rule("5.11.3")
def test_every_path_begins_at_the_directory(side: Client) -> None:
    paths = ("a/b/c", "/etc/passwd", "1/../d", "...", "..e/f", " g", "\\h")
    files = {MODEL: LISTING, **{f"file:{path}": b"x" for path in paths}}
    assert side.load("thin_air", LOADED_CONFIG, files) is None
    found, _ = answer_of(side, "thin_air")
    assert found == sorted(["1/model.py", "a/b/c", "etc/passwd", "d", "...", "..e/f", " g", "\\h", "config.pbtxt"])
    side.unload("thin_air")


@rule("5.11.3", "1.15.4")
@pytest.mark.parametrize("path", ["../x", "/../x", "1/../../x", "/a/../../x", "..", "./../x"])
def test_a_path_that_leaves_the_directory_is_refused(side: Client, path: str) -> None:
    failure = side.load("thin_air", LOADED_CONFIG, {MODEL: LISTING, f"file:{path}": b"x"})
    assert failure is not None
    assert (failure.code, failure.text) == ("INTERNAL", POLL_FAILED)
    start, _, end = failure.reason.partition(" with normalized path '")
    assert start == f"Invalid file parameter 'file:{path}'"
    assert end.endswith("' must stay within model directory.")


@rule("5.11.3")
@pytest.mark.parametrize("path", ["", "/", ".", "a/"])
def test_a_path_that_is_a_directory_is_refused(side: Client, path: str) -> None:
    failure = side.load("thin_air", LOADED_CONFIG, {MODEL: LISTING, f"file:{path}": b"x"})
    assert failure is not None
    assert (failure.code, failure.text) == ("INTERNAL", POLL_FAILED)
    assert failure.reason.startswith("failed to open binary file for write /")
    assert failure.reason.endswith(": Is a directory")


@rule("5.11.3")
@pytest.mark.parametrize("path", ["d/" * 3000 + "x", "d" * 300], ids=["deep", "long"])
def test_a_path_that_no_file_can_have_is_refused(side: Client, path: str) -> None:
    if isinstance(side, RealClient):
        pytest.skip("2.51 crashes")
    failure = side.load("thin_air", LOADED_CONFIG, {MODEL: LISTING, f"file:{path}": b"x"})
    assert failure is not None
    assert (failure.code, failure.text) == ("INTERNAL", POLL_FAILED)


@rule("5.11.3", "1.15.4")
def test_files_without_a_config_are_refused(side: Client) -> None:
    failure = side.load("thin_air", None, {MODEL: ADD_SUB.encode()})
    assert failure is not None
    assert (failure.code, failure.text) == ("INTERNAL", POLL_FAILED)
