"""`tritonlab export`: the models of a repository, or of a notebook that is run for it, written for a real server."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.foreign_file import read_text
from ...core.quoting import without_colours
from ...core.status import TritonError
from ...core.version import DEFAULT_TARGET
from ...repository.layout import model_names
from ...server.api.server import Server
from .child_command import CommandFailed
from .export_options import ExportOptions
from .image_build import build_image, with_docker
from .report import ExportConflict, ExportReport
from .repository import export

#: Exit statuses: it was written and, if asked for, proved; a server did not give the same answers; nothing was written,
#: or its image was not built.
WRITTEN, DIFFERS, NOTHING = 0, 1, 2
_MARK = "tritonlab export report: "
_CELL_SECONDS = 600
#: Runs after the last cell; its names must not meet those of the notebook.
_LAST_CELL = """
import json as _json, sys as _sys
import tritonlab as _tritonlab
_names = [row["name"] for row in _tritonlab.default_workspace().server.index() if row["state"] == "READY"]
_report = _tritonlab.export(_names, {directory!r}, say=lambda text: print(text, file=_sys.stderr), **{options!r})
print({mark!r} + _json.dumps([str(_report), _report.to_dict()]))
"""


def run(
    source: Path,
    directory: Path,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    target: str = DEFAULT_TARGET,
    include: Sequence[str] = (),
    env: str = "none",
    deploy: str = "",
    verify: bool | str = False,
    about: str = "",
    build: bool = False,
    run_image: bool = False,
    engine: str = "",
    as_json: bool = False,
) -> int:
    """Export, print the report, and return the exit status. The options are those of `tritonlab.export` and
    `build_image`; steps are printed to stderr."""
    builds = build or run_image or bool(engine)
    deploy = with_docker(deploy) if builds else deploy
    options = {
        **{"overwrite": overwrite, "dry_run": dry_run, "target": target, "include": list(include), "env": env},
        **{"deploy": deploy, "verify": verify, "about": about},
    }
    out = directory.expanduser().absolute()
    if deploy and out.name != "models":
        out /= "models"
    try:
        if source.suffix == ".ipynb":
            text, facts = _export_notebook(source, out, options)
        else:
            report = _export_repository(source.expanduser(), out, options)
            text, facts = str(report), report.to_dict()
    except (TritonError, ValueError, OSError, ExportConflict) as error:
        print(f"tritonlab: {error}", file=sys.stderr)
        return NOTHING
    proof = facts["verification"]
    status = DIFFERS if proof is not None and not proof["passed"] else WRITTEN
    if builds and not dry_run:
        try:
            image = build_image(out.parent, engine, run=run_image, say=_say)
            text, facts = f"{text}\n{image}", {**facts, "build": image.to_dict()}
        except (ValueError, OSError) as error:
            print(f"tritonlab: the image was not built: {error}", file=sys.stderr)
            status = NOTHING
    print(json.dumps(facts, indent=1) if as_json else text)
    return status


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _export_repository(source: Path, directory: Path, options: dict[str, Any]) -> ExportReport:
    """Load the models of a repository and export them. Raises FileNotFoundError without one, and TritonError for a
    model that does not load."""
    names = model_names(source) if source.is_dir() else []
    if not names:
        raise FileNotFoundError(f"{source} is not a model repository: nothing in it has a config.pbtxt or a version")
    chosen = ExportOptions.from_keywords(**options, say=_say)
    chosen.check(directory)
    with Server(source, model_control_mode="explicit", warm=0) as server:
        for name in names:
            server.load(name)
        return export([server.model(name) for name in names], directory, chosen)


def _export_notebook(path: Path, directory: Path, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Run a notebook, and export the models that it serves at its end. Raises CommandFailed for a file
    that is not a notebook, and for a cell that fails."""
    try:
        nbformat: Any = importlib.import_module("nbformat")
        nbclient: Any = importlib.import_module("nbclient")
    except ModuleNotFoundError as error:
        text = f"running a notebook needs {error.name}"
        raise CommandFailed(text, "pip install 'tritonlab[lab]'") from None
    try:
        notebook = nbformat.reads(read_text(path), as_version=4)
    except Exception as error:  # nbformat raises errors of several libraries for a document of another form
        reason = str(error).partition("\n")[0]
        raise CommandFailed(f"{path} is not a notebook: {reason}") from None
    cell = _LAST_CELL.format(directory=str(directory), options=options, mark=_MARK)
    notebook.cells.append(nbformat.v4.new_code_cell(cell))
    resources = {"metadata": {"path": str(path.resolve().parent)}}
    try:
        nbclient.NotebookClient(notebook, timeout=_CELL_SECONDS, resources=resources).execute()
    except (nbclient.exceptions.CellExecutionError, nbclient.exceptions.CellTimeoutError) as error:
        raise CommandFailed(
            f"{path} was not exported, because a cell failed:\n{without_colours(str(error)).strip()}"
        ) from None
    outputs = notebook.cells[-1].outputs
    print("".join(each.get("text", "") for each in outputs if each.get("name") == "stderr"), end="", file=sys.stderr)
    printed = "".join(each.get("text", "") for each in outputs if each.get("name") == "stdout")
    text, facts = json.loads(printed.partition(_MARK)[2].splitlines()[0])
    return str(text), dict(facts)
