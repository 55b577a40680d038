"""`tritonlab lab`: JupyterLab on a copy of the quickstart."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

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
    lab`. A copy that is there already stays as it is. Raises OSError where the directory cannot be written, or without
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
    """Return the copy of the quickstart in `directory`, made if it is not there."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / NAME
    if not path.exists():
        source = next(source for source in _SOURCES if source.exists())
        path.write_text(linked_to_site(source.read_text(encoding="utf-8")), encoding="utf-8")
    return path


def linked_to_site(text: str) -> str:
    """Return the text of a notebook with links to the pages of the documentation in place of those to other notebooks,
    which are not beside a copy."""
    text = text.replace("](README.md)", f"]({_SITE}/page/how-to/index.html)")
    return re.sub(r"\]\((\d\d_\w+)\.ipynb\)", rf"]({_SITE}/page/how-to/\1.html)", text)
