"""`tritonlab lab` and `make lab`: JupyterLab on copies of notebooks."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .core.foreign_file import read_text
from .core.whole_file import write_file

NAME = "tritonlab_quickstart.ipynb"
#: The documentation, as pyproject.toml names it.
_SITE = "https://tritonlab.readthedocs.io"
_PACKAGE = Path(__file__).parent
#: Where the notebook is in a wheel, and in a checkout.
_SOURCES = (_PACKAGE / "quickstart.ipynb", _PACKAGE.parent / "notebooks" / "00_quickstart.ipynb")


def run(words: Sequence[str] = ()) -> None:
    """Run `tritonlab lab`: the first word is the directory, unless it is an option of `jupyter lab`."""
    if words and not words[0].startswith("-"):
        open_lab(Path(words[0]), words[1:])
    else:
        open_lab(Path(), words)


def open_lab(directory: Path, arguments: Sequence[str] = ()) -> None:
    """Replace this process by JupyterLab on a copy of the quickstart in `directory`; `arguments` are more of `jupyter
    lab`. A copy that was edited stays as it is. Raises OSError where the directory cannot be written, or without
    JupyterLab.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise OSError("JupyterLab is not installed for this Python: pip install 'tritonlab[lab]'")
    notebook = copy_quickstart(directory)
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={directory.resolve()}"]
    command += [f"--LabApp.default_url=/lab/tree/{notebook.name}"]
    if os.geteuid() == 0:  # as in most containers; JupyterLab starts for root only if it is allowed to
        command.append("--allow-root")
    os.execv(sys.executable, [*command, *arguments])


def copy_quickstart(directory: Path) -> Path:
    """Return the copy of the quickstart in `directory`, made or brought up to date."""
    path = directory / NAME
    source = next(source for source in _SOURCES if source.exists())
    if not copy_notebook(linked_to_site(source.read_text(encoding="utf-8")), path):
        print(f"{path} has your edits and stays; a newer one: tritonlab lab in another directory", flush=True)
    return path


def copy_notebooks(folder: Path, directory: Path) -> None:
    """Copy the notebooks of `folder` and its README.md to `directory`, and print which copies stay for their edits."""
    kept = [
        path.name
        for path in sorted(folder.glob("*.ipynb"))
        if not copy_notebook(path.read_text(encoding="utf-8"), directory / path.name)
    ]
    shutil.copy(folder / "README.md", directory)
    if kept:
        print(f"These copies in {directory} have your edits and stay; move them away for the newer ones of {folder}:")
        print(f"  {', '.join(kept)}", flush=True)


def copy_notebook(text: str, path: Path) -> bool:
    """Write a notebook to `path`, unless a copy of the same cells is there; return False for a copy that a person
    has edited, which stays. Outputs and empty cells, such as JupyterLab's last one, do not count.
    """
    notebook = json.loads(text)
    mark = _cells_mark(notebook)
    try:
        there = json.loads(read_text(path))
        found, marked = _cells_mark(there), there["metadata"].get("tritonlab_copy")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (ValueError, TypeError, LookupError, AttributeError):  # some other file of this name
        return False
    else:
        if mark in (found, marked):
            return True
        if found != marked:
            return False
    notebook["metadata"]["tritonlab_copy"] = mark
    write_file(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return True


def _cells_mark(notebook: Any) -> str:
    """Return a digest of the texts of a notebook's cells, by which an edited copy is recognised."""
    texts = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    return hashlib.sha256(json.dumps([text for text in texts if text[1].strip()]).encode()).hexdigest()


def linked_to_site(text: str) -> str:
    """Return the text of a notebook with links to the pages of the documentation in place of those to other notebooks,
    which are not next to a copy."""
    text = text.replace("](README.md)", f"]({_SITE}/page/how-to/index.html)")
    return re.sub(r"\]\((\d\d_\w+)\.ipynb\)", rf"]({_SITE}/page/how-to/\1.html)", text)
