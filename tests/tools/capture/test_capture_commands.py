from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.models import IDENTITY
from tests.notebook.conftest import IDENTITY_OPTIONS, Notebook
from tests.tools.capture.test_trace_capture import entry, trace
from tritonlab.__main__ import main
from tritonlab.notebook.authoring.errors import OptionError
from tritonlab.tools.capture.capture_commands import rules_of
from tritonlab.tools.capture.capture_file import Capture


def test_a_capture_in_a_notebook(notebook: Notebook, tmp_path: Path) -> None:
    assert notebook.run(f"%%triton_model m {IDENTITY_OPTIONS}\n{IDENTITY}").success
    assert "nothing is captured; '%triton capture FILE' begins" in notebook.run("%triton capture").text
    one, other = tmp_path / "a.arrow", tmp_path / "b.arrow"
    options = "--sample 100% --per-minute 5 --only slow=0 --only errors --redact IN=shape --max-mb 10"
    assert "]: \ncaptures m\n" in notebook.run(f"%triton capture {one} m {options}").text
    assert "captures all models" in notebook.run(f"%triton capture {other}").text
    notebook.run("m(IN=[[1, 2]])")
    found = notebook.run("%triton capture").text
    assert str(one) in found and str(other) in found
    assert "1 requests" in notebook.run(f"%triton capture {one} --stop").text
    facts = json.loads(repr(notebook.run("%triton capture --stop --json").result))
    assert (facts["running"], facts["requests"], facts["path"]) == (False, 1, str(other))
    assert "nothing is captured to" in notebook.run(f"%triton capture {one} --stop").text
    assert next(iter(Capture(one))).withheld["input.IN"].how == "shape"
    assert next(iter(Capture(other))).exchange.outputs["OUT"].numpy().tolist() == [[1, 2]]
    assert "'none'" in notebook.run(f"%triton capture {tmp_path / 'c'} none").text and not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"only": ["fast"]}, "--only fast names no kind of requests: write errors, or slow=0.2"),
        ({"only": ["slow=x"]}, "--only slow=x names no kind"),
        ({"redact": ["TEXT"]}, "--redact TEXT has no PATTERN=HOW"),
        ({"redact": ["TEXT=hide"]}, "drop, hash, shape"),
        ({"per_minute": -1}, "per_minute=-1"),
    ],
)
def test_options_that_cannot_be_ones(options: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=text):
        rules_of(**options)  # type: ignore[arg-type]


def test_a_capture_of_a_trace_in_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, path = tmp_path / "trace.json", tmp_path / "a.arrow"
    source.write_bytes(b"[" + trace(entry("QUEUE_INPUT", "A", b"1", "1", "INT32")) + b"]")
    assert main(["capture", str(path), "--from", str(source), "--redact", "A=shape", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 1
    assert main(["capture", str(path), "--from", str(source)]) == 2
    assert "File exists" in capsys.readouterr().err
