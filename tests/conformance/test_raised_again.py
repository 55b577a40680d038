"""The lines below `At:` of an error that was raised again: those at which its frames ended (rule 2.5.2)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .clients import Client
from .models import SCRIPTED, config, model
from .rules import rule
from .scripts import TENSORS, eventually, script

MODELS = {"again": model(SCRIPTED, config(*TENSORS))}

_TEXT = Path(__file__).with_name("raised_again.txt").read_text()
#: The source of `call`, whose first line is its heading, and where Triton says that it raised.
SHAPES = {
    name: (f"\n{source}", frames.split(", "))
    for name, frames, source in re.findall(r"^# %% (.+?): (.+)\n((?:(?!# %%).*\n)+)", _TEXT, re.MULTILINE)
}
AGAIN = """
class TritonPythonModel:
    def initialize(self, args):
        fails("start")

    def execute(self, requests):
        return []

    def finalize(self):
        fails("end")


def fails(when):
    if when in FAILS:
        try:
            int("x")
        except Exception as error:
            raise error
"""


def frames_in(text: str, file: str) -> list[str]:
    """Return the lines and functions of the file that an error names."""
    return [f"{line}: {name}" for line, name in re.findall(rf"{file}\((-?\d+)\): (\w+)$", text, re.MULTILINE)]


@rule("2.5.2")
@pytest.mark.parametrize("name", SHAPES)
def test_the_line_at_which_each_frame_ended_is_reported(client: Client, name: str) -> None:
    source, frames = SHAPES[name]
    body = f"exec(compile({source!r}, 'shape.py', 'exec'), globals())\ncall()\n"
    assert frames_in(client.infer("again", script(body)).error, "shape.py") == frames


@rule("2.4.2", "2.5.2")
def test_the_line_in_initialize(side: Client) -> None:
    assert side.placed("again_first", model("FAILS = ['start']" + AGAIN, config(*TENSORS))) is not None
    (entry,) = (entry for entry in side.index() if entry["name"] == "again_first")
    assert frames_in(entry["reason"], "again_first/1/model.py") == ["18: fails", "4: initialize"]


@rule("2.5.2", "2.8.2")
def test_the_line_in_finalize(side: Client) -> None:
    assert side.placed("again_last", model("FAILS = ['end']" + AGAIN, config(*TENSORS))) is None
    side.unload("again_last")
    # Triton's log has the text as a JSON string
    last = eventually(lambda: frames_in(side.log().replace("\\n", "\n"), "again_last/1/model.py"))
    assert last == ["18: fails", "10: finalize"]
