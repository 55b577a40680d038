"""The content of one model that a notebook has written so far: its source, its config, its helper files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ...core.config.completed_text import completed_text
from ...core.config.model_config import (
    ConfigError,
    config_bytes,
    from_json,
    parse_pbtxt,
    print_pbtxt,
    read_config_text,
)
from ...core.config.model_config_rules import backend_of_file, is_ensemble
from ...core.foreign_file import read_text
from ...core.quoting import magic_line
from ...kernel_modules import BASE, BASE_FILE
from ...repository.layout import CONFIG_FILE, MODEL_FILE, version_numbers
from ...repository.model_tree import read_tree
from .base_directory import BaseDirectory
from .class_source import model_file_of, with_captured_names
from .config_options import ConfigOptions
from .config_text import ConfigText
from .errors import FileError, OptionError, SourceError, refused_files
from .source_map import ModelFile, whole

if TYPE_CHECKING:
    from .cells import CellBody
    from .settings import Settings

Source = str | type | PathLike[str]
Files = Mapping[str, bytes | str | PathLike[str]] | Sequence[str | PathLike[str]]


_IMPORTS_BASE = re.compile(rf"^\s*(from|import)\s+{BASE}\b", re.MULTILINE)
_NO_CONFIG = ConfigText()
_NO_OPTIONS = ConfigOptions()


@dataclass(frozen=True)
class Draft:
    """The written content of the model `name`. Cells make new drafts from old ones; a load writes and sends all of it.

    `files` are relative to the model directory, `beside`, `config_files` and `given_files` to the directory of the
    version that is loaded next. The next source drops `given_*`, `options` and `settings`; the rest stays.
    """

    name: str
    version: int = 1
    source: ModelFile | None = None
    files: Mapping[str, ModelFile] = field(default_factory=dict)
    beside: Mapping[str, ModelFile] = field(default_factory=dict)
    cell_config: ConfigText = _NO_CONFIG
    #: the files that were given with `cell_config`
    config_files: Mapping[str, ModelFile] = field(default_factory=dict)
    given_config: ConfigText = _NO_CONFIG
    given_files: Mapping[str, ModelFile] = field(default_factory=dict)
    options: ConfigOptions = _NO_OPTIONS
    #: the settings tuned since the text of the config was written, which take precedence over it
    settings: Settings | None = None
    #: the parts that cells wrote before there was a source, config.pbtxt or paths of files: their cells come before the
    #: model's
    before_source: frozenset[str] = frozenset()
    #: the directory from which the model was taken; the content of cells takes precedence over its files
    base: BaseDirectory | None = None

    @cached_property
    def model_file(self) -> str:
        """Return the name under which the source is written: the name in the config, or model.py."""
        try:
            return self.config.message.default_model_filename or MODEL_FILE
        except ConfigError:  # raised again by the load
            return MODEL_FILE

    @cached_property
    def model_path(self) -> str:
        """The source's path in the model directory. Raises FileError for a name that leads out of it."""
        return model_path(self.model_file, self.version)

    @cached_property
    def config(self) -> ConfigText:
        """The only config text: the cell's, or the text given with the load."""
        return self.given_config if self.given_config.says_something else self.cell_config

    @cached_property
    def config_file(self) -> str:
        """Return the text of config.pbtxt: the author's own text, followed by the additions of name, backend and
        options. If they change a part within it, the whole text is written again.

        Raises ConfigTextError, OptionError.
        """
        config = self.options.apply(self.config)
        if self.base is None:  # otherwise the server completes it, as for the directory itself
            config.name = config.name or self.name
            if self.engine_file:
                config.default_model_filename = config.default_model_filename or self.engine_file
            if not (config.platform or config.backend):
                config.backend = backend_of_file(self.engine_file) if self.engine_file else "python"
        if self.settings is not None:
            config = self.settings.written(config)
        text, printed_for = completed_text(self.config.text, config)
        if printed_for and "#" in self.config.text:
            return f"# rewritten, without the comments of {self.config.source}\n{text}"
        return text

    @cached_property
    def config_content(self) -> bytes | None:
        """Return the bytes of config.pbtxt; None without one, as in a base directory whose model completes its config
        itself. Raises ConfigTextError, OptionError, FileError.
        """
        if self.base is None:
            return config_bytes(self.config_file)
        if self.base.has_config:
            return self.base.original(CONFIG_FILE).edited(self.config_file)
        return config_bytes(self.config_file) if self.config_file.strip() else None

    @cached_property
    def engine_file(self) -> str:
        """Return the file of another backend's model, such as head.onnx, that was given with the config; "" without."""
        if self.source is not None:
            return ""
        found = [file for file in self.config_files if backend_of_file(file) not in ("", "python")]
        return found[0] if len(found) == 1 else ""

    @property
    def is_ensemble(self) -> bool:
        """Return whether the config describes an ensemble, which has no model.py. Raises ConfigTextError."""
        return is_ensemble(self.config.message)

    @property
    def has_other_backend(self) -> bool:
        """Return whether the config names another backend than Python's, or came with a file of one; such models have
        other files. Raises ConfigTextError."""
        config = self.config.message
        return bool(self.engine_file) or config.backend not in ("", "python") or config.platform not in ("", "ensemble")

    @property
    def loadable(self) -> bool:
        """Return whether the draft has everything for a load. Raises ConfigTextError."""
        is_foreign = self.has_other_backend or (self.base is not None and not self.base.is_python)
        return self.source is not None or self.is_ensemble or is_foreign

    @cached_property
    def tree(self) -> Mapping[str, ModelFile]:
        """All files of the model except config.pbtxt, by paths relative to the model directory."""
        beside = {**self.config_files, **self.beside, **self.given_files}
        tree = {**self.files, **{model_path(path, self.version): file for path, file in beside.items()}}
        if self.source is not None:
            tree[self.model_path] = self.source
            if _IMPORTS_BASE.search(self.source.text()):
                base = model_path(BASE_FILE.name, self.version)
                if base not in tree and (self.base is None or base not in self.base.tree.files):
                    tree[base] = ModelFile(BASE_FILE.read_bytes())
        if self.base is not None:
            return {**self.base.files(), **{path: self.base.written(path, file) for path, file in tree.items()}}
        return tree

    def all_files(self) -> dict[str, ModelFile]:
        """Return all files of the model's directory. Raises ConfigTextError, OptionError, FileError."""
        content = self.config_content
        if content is None:
            return dict(self.tree)
        like = self.base.path / CONFIG_FILE if self.base is not None and self.base.has_config else None
        return {**self.tree, CONFIG_FILE: ModelFile(content, like=like)}

    def with_changes(
        self,
        source: Source | None,
        config: str | Mapping[str, Any] | PathLike[str] | None,
        files: Files | None,
        version: int | None,
        options: ConfigOptions | None,
        body: CellBody | None,
        base: PathLike[str] | str | None = None,
    ) -> Draft:
        """Return the draft with the arguments of a call of `Workspace.load`; None keeps a part. Raises the errors of
        the steps below."""
        draft = self.without_base() if source is not None and base is None else self
        if base is not None:
            draft = draft.with_base(base, version)
        elif version is not None:
            draft = draft.with_version(version)
        if source is not None:
            draft = draft.with_source(source, body.origin if body else "", body.offset if body else 0)
        if options is not None:
            draft = replace(draft, options=options)
        if config is not None:
            draft = draft.with_config(config)
        return draft if files is None else draft.with_files(files)

    def with_base(self, path: PathLike[str] | str, version: int | None = None) -> Draft:
        """Return the draft with the files of a model directory that no cell writes. `version`: the version whose source
        the cell writes, by default the newest that is served. Raises FileError.
        """
        base = BaseDirectory.read(path)
        draft = replace(self.without_base(), base=base, version=base.newest() if version is None else version)
        if draft.cell_config.says_something or not base.has_config:
            return draft
        return replace(draft, cell_config=ConfigText(base.config_text(), str(base.path / CONFIG_FILE), model=self.name))

    def without_base(self) -> Draft:
        """Return the draft without its base directory, and without a config that only the directory has."""
        if self.base is None:
            return self
        is_its_own = self.cell_config.source == str(self.base.path / CONFIG_FILE)
        return replace(self, base=None, cell_config=_NO_CONFIG if is_its_own else self.cell_config)

    def with_file(self, path: str, file: ModelFile) -> Draft:
        """Return the draft with a helper file, `path` relative to the version directory."""
        return replace(self, beside={**self.beside, path: file}, before_source=self._before_source(path))

    def with_cell_config(self, config: ConfigText, files: Files = ()) -> Draft:
        """Return the draft with the text of a config cell, which brings the settings of that text, and with its files.
        Raises FileError for a missing one."""
        before = self._before_source(CONFIG_FILE)
        return replace(self, cell_config=config, config_files=_read_files(files), settings=None, before_source=before)

    def _before_source(self, written: str) -> frozenset[str]:
        return self.before_source if self.source is not None else self.before_source | {written}

    def with_source(self, source: Source, origin: str = "", offset: int = 0) -> Draft:
        """Return the draft with another model.py and without the arguments of the last load call.

        `source`: text, whose line n is line `n + offset` of `origin`; a class; or a path to a model.py or to a model
        directory, which brings its config and files too.

        Raises SourceError, FileError.
        """
        if isinstance(source, type):
            text, segments = model_file_of(source)
        elif isinstance(source, str) and ("\n" in source or not source.strip()):
            text, segments = source, whole(source, origin, offset) if origin else ()
        elif not isinstance(source, (str, PathLike)):
            raise SourceError(f"a source is a text, a class or a path, not of type {type(source).__name__}")
        else:
            with refused_files():  # also for a text without a line break, which is taken for a path
                if Path(source).is_dir():
                    return read_model(self.name, Path(source))
                text = _read_text(Path(source))
            segments = whole(text, str(Path(source).resolve()), 0)
        file = ModelFile(text.encode(), segments)
        fresh = replace(self, source=file, given_config=_NO_CONFIG, given_files={}, options=_NO_OPTIONS)
        return replace(fresh, settings=None)

    @property
    def source_path(self) -> Path | None:
        """The file on disk from which the source was read; None for a source of cells."""
        segments = self.source.segments if self.source is not None else ()
        origin = segments[0] if len(segments) == 1 else None
        if origin is None or (origin.first, origin.offset) != (1, 0) or not os.path.isabs(origin.origin):
            return None
        path = Path(origin.origin)
        return path if path.is_file() else None

    def read_again(self) -> Draft:
        """Return the draft with its source and helper files as they are on disk now, if they were read from there.
        Raises SourceError, FileError."""

        def present(files: Mapping[str, ModelFile]) -> dict[str, ModelFile]:
            return {
                name: _model_file(name, file.content) if isinstance(file.content, Path) and file.segments else file
                for name, file in files.items()
            }

        draft = replace(
            self,
            files=present(self.files),
            beside=present(self.beside),
            config_files=present(self.config_files),
            given_files=present(self.given_files),
        )
        path = self.source_path
        if path is None or self.source is None:
            return draft
        text = _read_text(path)
        return replace(draft, source=replace(self.source, content=text.encode(), segments=whole(text, str(path), 0)))

    def with_more(self, behind: str) -> Draft:
        """Return the draft with more lines after its source. Raises FileError if it has no source."""
        if self.source is None:
            raise FileError(f"there is no {self.model_file} for {self.name!r} yet", fix="write it first")
        text = self.source.text() + behind
        return replace(self, source=replace(self.source, content=text.encode())) if behind else self

    def with_captured(self, namespace: Mapping[str, Any]) -> Draft:
        """Return the draft with the definitions of other cells that its source uses before it. Raises SourceError."""
        source = self.source
        if source is None:
            return self
        text = source.text()
        captured, segments = with_captured_names(text, source.segments, namespace, self.model_file)
        return self if captured == text else replace(self, source=ModelFile(captured.encode(), segments))

    def with_version(self, version: int) -> Draft:
        """Return the draft with its next source in another version directory; the present one keeps its files."""
        return self if version == self.version else replace(self, version=version, source=None, files=self.tree)

    def with_files(self, files: Files) -> Draft:
        """Return the draft with helper files: paths to copy, or name -> bytes or path; of a directory, such as a
        package, all its files. Raises FileError for a missing one.
        """
        return replace(self, given_files=_read_files(files))

    def with_config(self, config: str | Mapping[str, Any] | PathLike[str]) -> Draft:
        """Return the draft with a config: config.pbtxt as text or path, or the JSON form as a dict.

        Raises OptionError if a cell's config text exists, because neither may be dropped silently.
        """
        if isinstance(config, Mapping):
            message = from_json(dict(config))
            if not message.model_transaction_policy.ListFields():  # it declared itself not decoupled
                message.ClearField("model_transaction_policy")
            text_config = ConfigText(print_pbtxt(message), "config=", model=self.name)
        elif isinstance(config, str) and (not config.strip() or any(mark in config for mark in ":{\n")):
            text_config = ConfigText(config, "config=", model=self.name)
        elif Path(config).is_file():
            text = _read_text(Path(config))
            text_config = ConfigText(text, os.fspath(config), model=self.name)
        else:
            raise FileError(f"there is no config file {os.fspath(config)!r}")
        if self.cell_config.says_something and text_config.says_something:
            raise OptionError(
                f"{self.cell_config.source} and {text_config.source} both give the whole config: keep one of them "
                f"(%triton config NAME --clear takes the first back)",
                field=f"{self.cell_config.source} and {text_config.source}",
                fix=f"keep one of them: {magic_line('%triton', 'config', self.name, '--clear')} takes the first back",
            )
        return replace(self, given_config=text_config, settings=None)


def model_path(path: str, version: int) -> str:
    """Return the path in the model directory for the author's `path`, which is relative to the version directory.

    `helper.py` -> `1/helper.py`; `../labels.txt` -> `labels.txt`. Raises FileError for a path that leaves the model
    directory, and for config.pbtxt.
    """
    relative = PurePosixPath(path.replace("\\", "/"))
    parts = os.path.normpath(f"{version}/{relative}").split("/")
    if parts == [CONFIG_FILE]:
        fix = "use %%triton_config or config="
        raise FileError(f"{CONFIG_FILE} is written from the model's config: {fix}", field=path, fix=fix)
    if relative.is_absolute() or parts[0] == ".." or parts in ([str(version)], ["."]):
        raise FileError(f"{path!r} is not a file below the model's directory (paths start at the version's)")
    return "/".join(parts)


def read_model(name: str, path: Path) -> Draft:
    """Return the draft of an existing model directory. Its source is the newest version's model.py, or the file that
    the config names; an ensemble has no source.

    Big files are not read; they are copied at each load. Raises FileError for a directory that is not a model's.
    """
    versions = version_numbers(path)
    config = path / CONFIG_FILE
    text = read_config_text(config)
    tree = read_tree(path)
    copied = {file: ModelFile((path / file).resolve()) for file in tree.files if file != CONFIG_FILE}
    linked = {link: ModelFile(os.fsencode(end), link=end) for link, end in tree.links.items()}
    draft = Draft(
        name,
        files={**copied, **linked},
        cell_config=ConfigText(text, str(config), model=name),
    )
    sources = [version for version in versions if (path / str(version) / draft.model_file).is_file()]
    ensemble = bool(versions) and not sources and is_ensemble(parse_pbtxt(text, str(config)))
    if not sources and not ensemble:
        models = sorted(p.parent.parent.name for p in path.glob(f"*/*/{MODEL_FILE}"))
        inside = f"; it is a repository, load one of {', '.join(dict.fromkeys(models))}" if models else ""
        if (path / MODEL_FILE).is_file():
            inside = f"; load its file: {path / MODEL_FILE}" + (f" --config {config}" if text else "")
        raise FileError(f"{str(path)!r} is not a model directory: it has no <version>/{draft.model_file}{inside}")
    draft = replace(draft, version=(sources or versions)[-1])
    number = str(draft.version)
    if number in tree.links:  # the source is written into this directory, so the directory cannot stay a link
        version = {file: ModelFile((path / number / file).resolve()) for file in read_tree(path / number).files}
        others = {file: each for file, each in draft.files.items() if file != number}
        draft = replace(draft, files={**others, **{f"{number}/{file}": each for file, each in version.items()}})
    return draft if ensemble else draft.with_source(path / str(draft.version) / draft.model_file)


def _read_files(files: Files) -> dict[str, ModelFile]:
    paths = (files,) if isinstance(files, (str, PathLike)) else files
    listed = [(os.path.basename(os.path.abspath(path)), path) for path in paths]
    named = files.items() if isinstance(files, Mapping) else listed
    each_file = [inside for name, value in named for inside in _in_directory(name, value)]
    found: dict[str, ModelFile] = {}
    for name, value in each_file:
        file = _model_file(name, value)
        if found.setdefault(name, file) != file:
            fix = "load(..., files={NAME: PATH}) gives each a name of its own"
            raise FileError(f"two files are named {name!r}, of which one would be lost: {fix}", field=name, fix=fix)
    return found


def _in_directory(name: str, value: bytes | str | PathLike[str]) -> list[tuple[str, bytes | str | PathLike[str]]]:
    """Return the files of a directory by name, without caches and hidden files; any other path itself."""
    if isinstance(value, bytes) or not Path(value).is_dir():
        return [(name, value)]
    found = [(path.relative_to(value), path) for path in sorted(Path(value).rglob("*")) if path.is_file()]
    left = {part for part, _ in found if any(each.startswith(".") or each == "__pycache__" for each in part.parts)}
    shown = [(part, path) for part, path in found if part not in left]
    if not shown:
        raise FileError(f"there is no file in the directory {os.fspath(value)!r}")
    return [(f"{name}/{part.as_posix()}", path) for part, path in shown]


def _read_text(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        fix = "save it in UTF-8"
        text = f"{path} is not a text in UTF-8 ({error.reason} in byte {error.start})"
        raise FileError(f"{text}: {fix}", field=str(path), fix=fix) from None


def _model_file(name: str, value: bytes | str | PathLike[str]) -> ModelFile:
    if isinstance(value, bytes):
        return ModelFile(value)
    path = Path(value)
    if not path.is_file():
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        content = f"; the content of {name!r} is given as bytes" if name != path.name else ""
        raise FileError(f"there is no file {os.fspath(value)!r}{where}{content}")
    segments = whole(_read_text(path), str(path.resolve()), 0) if path.suffix == ".py" else ()
    return ModelFile(path.resolve(), segments)
