"""The IPython magics: each reads its line, makes one call of the workspace, and shows the result."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from typing import Any

from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from ...core.config.model_config import ConfigError
from ...core.status import ModelError, TritonError
from ...repository.layout import CONFIG_FILE
from ..authoring.cell_text import split_cell
from ..authoring.cells import CellBody, running_body, user_namespace
from ..authoring.config_options import KINDS, ConfigOptions
from ..authoring.draft import Source
from ..authoring.errors import NotebookError, refused_files
from ..authoring.workspace import Workspace
from ..views.card.live_card import loading_card
from ..views.widget import import_when_idle
from . import commands
from .completion import install_completion
from .notebook_shell import NotebookShell
from .parsing import LineError, check_variables, line_parser, parse
from .request_commands import named_values, replay
from .running_cell import PrintedLines
from .subcommand import Context, bind

#: An option with one or more values, which may be repeated.
_SEVERAL: dict[str, Any] = {"nargs": "+", "action": "extend"}


def config_arguments(magic: Any) -> Any:
    """Add the options that describe the config, as `%%triton_model` accepts them."""
    for option in reversed(
        [
            argument("--max-batch-size", type=int, metavar="N", help="rows of the largest batch; 0: no batching"),
            argument(
                "--dynamic-batching",
                nargs="?",
                type=int,
                const=True,
                metavar="DELAY",
                help="join requests to batches; wait up to DELAY microseconds for more of them",
            ),
            argument("--preferred-batch-size", type=int, metavar="N", help="batch sizes to prefer", **_SEVERAL),
            argument("--instances", type=int, metavar="N", help="how many processes run the model"),
            argument("--kind", choices=KINDS, help="what the instances run on"),
            argument("--gpus", type=int, metavar="N", help="GPUs, each with its instances", **_SEVERAL),
            argument(
                "--decoupled",
                action="store_true",
                default=None,
                help="the model sends any number of responses per request",
            ),
            argument(
                "--input",
                dest="inputs",
                metavar="SPEC",
                help="inputs as NAME:FP32[-1,4], without the batch dimension; a ? at the end: optional",
                **_SEVERAL,
            ),
            argument("--output", dest="outputs", metavar="SPEC", help="outputs, in the same form", **_SEVERAL),
            argument(
                "--sample",
                metavar="'IN=expr, …'",
                help="a request: the config gets its inputs, and the outputs that it is answered with",
            ),
            argument("--param", dest="parameters", metavar="KEY=VALUE", help="parameters of the config", **_SEVERAL),
            argument("--config", metavar="FILE", help="a config.pbtxt file, or its text"),
            argument("--file", metavar="PATH", help="files to lie beside model.py", **_SEVERAL),
            argument("--base", metavar="DIR", help="a model directory, whose files count where no cell writes them"),
            argument("--version", type=int, metavar="N", help="the version directory to write (the last one, or 1)"),
            argument("--capture", action="store_true", help="write what other cells define in front of the model"),
            argument("--quiet", action="store_true", help="no card"),
        ]
    ):
        magic = option(magic)
    return magic


def _of_a_cell(magic: Any) -> Any:
    """Correct the help of a cell magic: IPython writes one percent sign in its usage, and `?` drops the backslash at
    the end of a line."""
    text = magic.__doc__.replace(f"  %{magic.__name__} ", f"  %%{magic.__name__} ", 1)
    magic.__doc__ = text.replace("\\\n", "\\ \n")
    return magic


@magics_class
class TritonMagics(Magics):
    """The magics `%%triton_model`, `%%triton_config`, `%%triton_file` and `%triton` of one shell."""

    def __init__(self, shell: Any, workspace: Callable[[], Workspace], printed: PrintedLines) -> None:
        super().__init__(shell)
        self._workspace = workspace
        self._printed = printed
        #: model -> the number of the cell that loaded it for a config or a file, or that found it loaded so
        self._renewed: dict[str, int] = {}

    @_of_a_cell
    @magic_arguments()
    @argument("name", help="the model's name")
    @config_arguments
    @cell_magic
    def triton_model(self, line: str, cell: str) -> None:
        """Write the cell as model.py of a Triton model, load it, and show its card.

        The model is then a variable of its name: add_sub(INPUT0=..., INPUT1=...).

        Examples:

            %%triton_model add_sub --max-batch-size 8 \\
                --input INPUT0:FP32[4] INPUT1:FP32[4] --output OUTPUT0:FP32[4] OUTPUT1:FP32[4]

            %%triton_model scores --max-batch-size 32 --dynamic-batching 500 \\
                --input TEXT:STRING[1] --output P:FP32[-1]

            %%triton_model count --decoupled --input N:INT32[1] --output I:INT32[1]

            %%triton_model twice --sample "IN=np.ones(4, np.float32)"

            %%triton_model net --file weights.pt --param threshold=0.5 --instances 2 --gpus 0 1

        A line that ends with a backslash continues on the next one. Below comes the text of
        model.py: `import triton_python_backend_utils as pb_utils` and a class `TritonPythonModel`.
        The dims of --input and --output are those of config.pbtxt, without the batch dimension.
        """
        args, cell, body = self._read(TritonMagics.triton_model, line, cell)
        self._load(
            args.name,
            quiet=args.quiet,
            source=cell,
            config=args.config,
            files=args.file,
            version=args.version,
            options=_options(args),
            body=body,
            base=args.base,
            capture=user_namespace() if args.capture else None,
            sample=named_values(args.sample) if args.sample is not None else None,
            # not twice if the cell before has just loaded exactly this, as in Run All after an edit of the config
            if_changed=self._just_renewed(args.name),
        )

    @_of_a_cell
    @magic_arguments()
    @argument("name", help="the model's name")
    @argument(
        "--base", metavar="DIR", help="the model directory of an ensemble, whose other files are used as they are"
    )
    @argument("--file", metavar="PATH", help="files of the version directory: head.onnx", **_SEVERAL)
    @argument("--no-load", action="store_true", help="keep the text for the next load")
    @argument("--quiet", action="store_true", help="no card")
    @cell_magic
    def triton_config(self, line: str, cell: str) -> None:
        """Give a model the cell as its config.pbtxt; load the model again if it exists.

        An ensemble has only a config: it is loaded at once, after the models that its steps name.
        So is a model of another backend: its config, and its file.

        Examples:

            %%triton_config add_sub
            max_batch_size: 8
            dynamic_batching { max_queue_delay_microseconds: 500 }
            instance_group [ { count: 2 } ]

            %%triton_config head --file head.onnx
            backend: "onnxruntime"
        """
        args, cell, body = self._read(TritonMagics.triton_config, line, cell)
        self._workspace().write_config(args.name, cell, body=body, base=args.base, files=args.file)
        self._load_again(args, CONFIG_FILE, body)

    @_of_a_cell
    @magic_arguments()
    @argument("name", help="the model's name")
    @argument("path", help="the file, relative to the version directory; ../labels.txt is in the model's directory")
    @argument("--no-load", action="store_true", help="keep the file for the next load")
    @argument("--quiet", action="store_true", help="no card")
    @cell_magic
    def triton_file(self, line: str, cell: str) -> None:
        """Put the cell next to model.py as a helper file; load the model again if it exists.

        Examples:

            %%triton_file add_sub arithmetic.py

            %%triton_file classifier ../labels.txt
        """
        args, cell, body = self._read(TritonMagics.triton_file, line, cell)
        path = self._workspace().write_file(args.name, args.path, cell, body=body)
        self._load_again(args, args.path, body, path)

    @line_magic
    def triton(self, line: str) -> Any:
        alone = self._printed.quiet() if "--json" in line.split() else nullcontext()
        check_variables(self.shell, line)
        with refused_files(), alone:
            return commands.run(Context(self.shell, self._workspace()), line)

    triton.__doc__ = "Models in this notebook.\n\n" + "\n".join(commands.summary())

    def _read(self, magic: Any, line: str, cell: str) -> tuple[argparse.Namespace, str, CellBody]:
        """Return the arguments of the magic, whose line may continue in the cell, and the cell's body with its place.
        Raises LineError."""
        shell: Any = self.shell

        def expand(more: str) -> str:
            # up to the frame that runs the magic, as IPython counts for the first line
            expanded = str(shell.var_expand(more, depth=5))
            check_variables(shell, expanded)
            return expanded

        check_variables(shell, line)
        whole, body = split_cell(f"{line}\n{cell}", expand)
        arguments = parse(line_parser(magic), whole)
        return arguments, body or "", running_body(shell, magic.__name__, whole, body or "")

    def _load_again(self, args: argparse.Namespace, written: str, body: CellBody, path: str = "The config") -> None:
        """Load the model again with the cell's content. If that cannot be loaded with the known source, leave it to the
        model's own cell, which Run All runs next.
        """
        workspace, of_config = self._workspace(), written == CONFIG_FILE
        if not args.no_load and workspace.draft(args.name).loadable:
            before = workspace.report(args.name)
            just_renewed = self._just_renewed(args.name)
            try:
                self._load(args.name, quiet=args.quiet, of_config=of_config, if_changed=True)
            except (TritonError, NotebookError, ConfigError) as error:
                if not workspace.awaits_source(args.name, written) or _is_raised_in(body, error):
                    raise
                why = workspace.shell.describe_error(error) or str(error).strip()
                note = f"{path} is kept for {args.name}, whose own cell decides: as it ran last, it did not load."
                print(f"{note}\n\n{why}")
            if just_renewed or workspace.report(args.name) is not before:
                self._renewed[args.name] = self._cell_number()
        elif not args.quiet:
            print(f"{path} is kept for {args.name}; it is used when the model is loaded.")

    def _just_renewed(self, name: str) -> bool:
        return self._renewed.get(name) == self._cell_number() - 1

    def _cell_number(self) -> int:
        assert self.shell is not None
        return int(self.shell.execution_count)

    def _load(
        self, name: str, *, quiet: bool, of_config: bool = False, source: Source | None = None, **settings: Any
    ) -> None:
        """Load a model and show its card. If a failed load leaves the last good version serving, the card shows it."""
        workspace = self._workspace()
        before = workspace.report(name)
        with refused_files(), loading_card(workspace, name, quiet=quiet, of_config=of_config):
            model = workspace.load(name, source, **settings)
            unbound = bind(self.shell, model)
        if unbound and not quiet:
            print(unbound)
        if workspace.report(name) is not before:
            replay(workspace, name)


def register(shell: Any, workspace: Callable[[], Workspace]) -> NotebookShell:
    """Make the magics, their completion, the tracebacks and the extension's comm part of `shell`, and use the workspace
    there. Called by `%load_ext tritonlab`. Returns the shell for the workspaces that `workspace` makes later."""
    found = NotebookShell(shell, workspace)
    workspace().show_in(found)
    magics = TritonMagics(shell, workspace, found.printed)
    shell.register_magics(magics)
    for name in magics.magics["cell"]:
        shell.register_magic_function(partial(_refuse_below, name), "line", f"%{name}")
    install_completion(shell, magics, workspace)
    import_when_idle()
    return found


def _refuse_below(name: str, line: str) -> None:
    """Refuse the line of a cell magic that does not begin its cell, because IPython takes it for a line magic of that
    name.

    Raises LineError.
    """
    advice = "move it to the first line of a cell; comments and other code come below it, or in another cell"
    raise LineError(f"%%{name} {line.strip()} does not begin its cell: {advice}", advice)


def _is_raised_in(body: CellBody, error: Exception) -> bool:
    """Return whether a line of the cell, or a function called from it, raised the error."""
    exception = error.exception if isinstance(error, ModelError) else None
    if exception is None:
        return False
    return any(frame.file == body.origin for frame in exception.frames) or f'"{body.origin}"' in exception.place


def _options(args: argparse.Namespace) -> ConfigOptions:
    parameters = {}
    for pair in args.parameters or ():
        key, equals, value = pair.partition("=")
        if not equals:
            raise LineError(f"--param {pair}: expected KEY=VALUE")
        parameters[key] = value
    given = {each.name: getattr(args, each.name) for each in fields(ConfigOptions)} | {"parameters": parameters}
    return ConfigOptions(**{name: value for name, value in given.items() if value is not None})
