"""The subcommands about models: to load, open, unload, kill, show, check, edit and configure them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ...core.plain_facts import by_number
from ...core.quoting import magic_line
from ...server.api.server import UNLOAD_SECONDS, Server
from ..authoring.artifact import artifact_of
from ..authoring.base_directory import BaseDirectory
from ..authoring.cell_text import split_cell
from ..authoring.cells import user_namespace
from ..authoring.errors import ExpressionError, FileError, OptionError
from ..authoring.model_cells import config_line, imported_cells, model_line
from ..views.card.hanging import draining_text
from ..views.card.live_card import LiveCard, card_of, loading_card
from ..views.card.opened_view import Repository
from ..views.card.status_table import StatusView
from .subcommand import Context, Text, bind

#: Seconds that `%triton unload` waits.
_PATIENCE = 1.0
_ARTIFACT_USAGE = "%triton artifact NAME weights.pt=expression"


def status(context: Context, name: str | None = None) -> Any:
    if name is None:
        return StatusView(context.workspace)
    known = context.workspace.report(name)  # a failed load is shown, too
    if not (context.json and known is not None):
        context.model(name)
    return card_of(context.workspace, name)


def load(context: Context, name: str, path: str | None = None, config: str | None = None) -> LiveCard | None:
    with loading_card(context.workspace, name, quiet=context.json):
        bind(context.shell, context.workspace.load(name, path, config=config))
    return card_of(context.workspace, name) if context.json else None


def watch(context: Context, name: str | None = None, stop: bool = False) -> Any:
    """Watch a model's files on disk, and return its card, which shows each load; without a name, list them."""
    watch = context.workspace.watch()
    if name is None:
        names = watch.names()
        if stop:
            for each in names:
                watch.remove(each)
        text = f"{'no longer watched' if stop else 'watched'}: {', '.join(names)}" if names else "no model is watched"
        return Text(text, {"watched": [] if stop else names})
    context.check_known(name)
    if stop:
        was = watch.remove(name)
        return Text(f"'{name}' {'is no longer watched' if was else 'was not watched'}", {"model": name, "stopped": was})
    files = watch.add(name)
    if context.json:
        return Text("", {"model": name, "files": list(map(str, files))})
    print("\n".join([f"'{name}' is loaded again when one of these changes:", *(f"  {file}" for file in files)]))
    return card_of(context.workspace, name)


def open_repository(
    context: Context, directory: str, models: Sequence[str] | None = None, into: str | None = None
) -> Repository:
    opened = Repository.open(context.workspace, directory, models, into=into)
    for name in opened:
        if opened[name].facts().state == "READY" and (unbound := bind(context.shell, context.model(name))):
            print(unbound)
    return opened


def unload(context: Context, name: str, dependents: bool = False, timeout: float = UNLOAD_SECONDS) -> Text:
    """Unload a model and wait only for a moment, because the author needs the notebook, even if the model hangs."""
    server = context.workspace.server
    context.check_known(name)  # the server would report nothing, as Triton does
    before = _serving(server)
    context.workspace.unload(name, unload_dependents=dependents, timeout=timeout, wait=False)
    end = time.monotonic() + _PATIENCE
    while (draining := server.draining(name)) and time.monotonic() < end:
        time.sleep(0.02)
    gone = sorted(before - _serving(server) - {name}, key=by_number)
    also = f", and {' and '.join(map(repr, gone))} with it" if gone else ""
    text = f"'{name}' is unloaded{also}" if name in before else f"'{name}' was not loaded"
    facts = {"model": name, "unloaded": [*([name] if name in before else []), *gone], "draining": draining}
    return Text("\n".join([text, *map(draining_text, draining)]), facts)


def _serving(server: Server) -> set[str]:
    return {name for name, _ in server.models(exclude_not_ready=True)}


def kill(context: Context, name: str) -> Text:
    context.check_known(name)
    old, killed = context.workspace.server.draining(name), context.workspace.server.kill(name)
    if not killed:
        advice = f"{magic_line('%triton', 'unload', name)} takes it out of service"
        text = f"nothing of '{name}' is left to kill: no old process, and none that holds a request; {advice}"
        raise OptionError(text, fix=advice)
    pids = ", ".join(str(pid) for each in killed for pid in each["pids"])
    facts = {"model": name, "killed": killed}
    if not old:
        what = ", ".join(each["awaits"] for each in killed)
        return Text(f"killed what held {what}; another process takes over", facts)
    return Text(f"killed what was left of '{name}': process {pids}", facts)


def index(context: Context, ready: bool = False) -> Text:
    entries = sorted(context.workspace.server.index(ready), key=lambda entry: by_number(entry["name"]))
    return Text("\n".join(map(_index_line, entries)) or "no models", {"models": entries})


def _index_line(entry: dict[str, str]) -> str:
    """Show an entry, with the first line of its reason; the rest is a traceback that the load has shown."""
    state, reason = entry.get("state", "not loaded"), entry.get("reason", "").partition("\n")[0]
    return f"{entry['name']:<24} {entry.get('version', ''):>3}  {state:<11}  {reason}".rstrip()


def config(context: Context, name: str, clear: bool = False) -> Text | None:
    if clear:
        context.check_known(name)
        context.workspace.write_config(name, "")
        return None
    model = context.model(name)
    return Text(model.config_pbtxt(), model.config())


def edit(context: Context, name: str) -> None:
    """Insert a cell with the model's source: of the cell that wrote it, or of an opened repository. Raises FileError if
    this notebook does not have its source.
    """
    shell, workspace = context.shell, context.workspace
    draft = workspace.draft(name)
    source = draft.source
    if source is None and (draft.is_ensemble or draft.engine_file):
        shell.set_next_input(f"{config_line(draft)}\n{draft.config.text}")
        return
    directory = next((path / name for path in workspace.repositories if (path / name).is_dir()), None)
    if source is None and directory is not None:
        *others, cell = imported_cells(name, BaseDirectory.read(directory))
        shell.set_next_input(cell)
        if others:
            print(f"What this cell does not write counts as it is in {directory}; cells for that, too, are\n")
            print("\n".join(split_cell(other)[0] for other in others))
        return
    if source is None:
        raise FileError(f"this notebook has no source of {name!r}: load it first", fix="load it first")
    line, left_out = model_line(draft)
    if left_out:
        print(f"These files, which load() got, cannot be named in the cell: {', '.join(left_out)}")
    shell.set_next_input(f"{line}\n{source.text()}")


def artifact(context: Context, line: str) -> Text:
    """Write the value of an expression next to model.py, and load the model again if it exists. Raises OptionError,
    FileError, and the errors of a load."""
    workspace = context.workspace
    name, _, rest = line.strip().partition(" ")
    named = named_value(rest)
    if not name or named is None:
        raise OptionError(f"write {_ARTIFACT_USAGE}", fix=_ARTIFACT_USAGE)
    path, value = named
    stored = artifact_of(path, value)
    written = workspace.write_file(name, path, stored.data)
    if workspace.draft(name).loadable:
        with loading_card(workspace, name, quiet=True):
            bind(context.shell, workspace.load(name, if_changed=True))
    text = f"{written} of {name} has {len(stored.data):,} bytes; the model reads it with {stored.reader}"
    where = "path is os.path.join(os.path.dirname(__file__), ...)"
    return Text(f"{text}, where {where}", {"model": name, "path": written, "bytes": len(stored.data)})


def named_value(text: str) -> tuple[str, Any] | None:
    """Return the file and the value of `weights.pt=expression`; None for another form. Raises ExpressionError if the
    expression raises."""
    path, equals, expression = (part.strip() for part in text.partition("="))
    if not path or not equals or not expression:
        return None
    try:
        return path, eval(expression, dict(user_namespace()))
    except Exception as error:
        raise ExpressionError.from_exception(expression, error) from None
