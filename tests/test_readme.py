"""README.md, CONTRIBUTING.md and the pages of docs/ stay true to the code: the files they name exist, and their Python
runs."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritonlab
from tests.models import IDENTITY
from tritonlab import Server, runtime

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    if "how-to" not in path.parts and "errors" not in path.parts
}
OVERVIEW = PAGES["overview.md"]


def test_the_files_they_name_exist() -> None:
    written = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "architecture.md", "overview.md", "parity.md")
    text = "".join(PAGES[name] for name in written)
    named = set(re.findall(r"`((?:\w+/)+(?:\w+\.(?:py|md|ipynb|ts|mjs))?)`", text))
    assert len(named) > 40
    roots = (ROOT, ROOT / "tritonlab", ROOT / "tritonlab/stub/_pb_stub", ROOT / "tritonlab/notebook/views")
    missing = [name for name in sorted(named) if not any((root / name).exists() for root in roots)]
    assert missing == [
        "extension/src/views/NAME.ts",
        "tests/a/test_b.py",
        "tritonlab/a/b.py",
    ]  # any file, and its test


def test_a_reader_of_one_screen_finds_the_way() -> None:
    """Pictures show on a registry's page only under a full address; the rest of a README may be relative."""
    text = PAGES["README.md"]
    assert len(text.split()) < 650
    pictures = re.findall(r'src(?:set)?="([^"]+)"|!\[[^]]*\]\(([^)]+)\)', text)
    paths = [link.partition("/main/")[2] for pair in pictures for link in pair if link.startswith("https://")]
    assert len(paths) == len(pictures) == 2 and all((ROOT / path).exists() for path in paths)
    links = [link for link in re.findall(r"(?<!!)\[[^]]*\]\(([^)]+)\)", text) if "://" not in link]
    assert links and [link for link in links if not (ROOT / link).exists()] == []


def test_its_instrument_counts_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = next(
        block
        for block in re.findall(r"```python\n(.*?)```", PAGES["CONTRIBUTING.md"], re.DOTALL)
        if "Instrument" in block
    )
    with Server(tmp_path, model_control_mode="explicit") as server:
        monkeypatch.setattr(tritonlab, "default_server", lambda: server)
        names: dict[str, Any] = {}
        exec(code, names)
        config = {
            "max_batch_size": 8,
            "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
            "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
        }
        model = server.load("echo", config, {"file:1/model.py": IDENTITY.encode()})
        model(IN=np.ones((3, 1), np.float32))
        sizes = names["sizes"]
    assert list(sizes.seen.values()) == [1]
    assert next(iter(sizes.seen))[:2] == ("echo", 3)
    assert "<td>echo<td>3" in sizes._repr_html_()


def test_what_it_calls_public_is_public() -> None:
    named = set(re.findall(r"`tritonlab\.(\w+)", OVERVIEW + PAGES["README.md"]))
    modules = {"testing", "runtime", "semantics", "tritonserver", "ray"}
    assert named - modules <= set(tritonlab.__all__)
    assert all(hasattr(tritonlab, name) for name in tritonlab.__all__)
    documented = (runtime.load.__doc__ or "") + (runtime.serve.__doc__ or "")
    for name in re.findall(r"fields? of `(\w+)`", documented):
        assert name in tritonlab.__all__


def test_help_tells_what_each_option_of_a_server_is() -> None:
    text = inspect.getdoc(tritonlab.Options) or ""
    assert [f.name for f in fields(tritonlab.Options) if not re.search(rf"^(.*, )?{f.name}\b.*: ", text, re.M)] == []


def test_the_way_of_a_request_is_drawn_as_in_runtime_and_names_what_is_there() -> None:
    drawing = next(block for block in PAGES["architecture.md"].split("```\n") if "process border" in block)
    assert drawing in (runtime.__doc__ or "").replace("\n    ", "\n")
    rows = re.findall(r"^(?:  \| )?([\w., ()]+?)  +((?:\w+/)+(?:\w+\.py)?)", drawing, re.MULTILINE)
    assert len(rows) > 8
    for names, place in rows:
        path = ROOT / "tritonlab" / place
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        code = "\n".join(file.read_text(encoding="utf-8") for file in files)
        for name in re.findall(r"[A-Z]\w+|(?<=\.)\w+|\w+_\w+|deliver", names):
            assert name in {"HTTP", "RPC"} or re.search(rf"(class|def) {name}\b", code), (name, place)
