"""An author's text of config.pbtxt with the added fields after it; the text itself is kept byte for byte."""

from __future__ import annotations

from typing import Any, NamedTuple

from google.protobuf.message import Message

from .model_config import ConfigError, ModelConfig, parse_pbtxt, print_pbtxt

#: The line between the author's text and the additions.
ADDED = "# added by tritonlab"


class CompletedText(NamedTuple):
    """A completed text, and the fields that forced it to be printed from the message; none if it is the author's."""

    text: str
    printed_for: tuple[str, ...] = ()


def completed_text(text: str, config: ModelConfig) -> CompletedText:
    """Return the author's `text`, continued with the fields that only `config` has, so that it parses to `config`.

    A text can be continued by a field that it lacks, an element of a list or an entry of a map. If `config` differs
    within a field of the author, it is printed as a whole. Raises ConfigError for a text that does not parse.
    """
    if not text.strip():
        return CompletedText(print_pbtxt(config))
    authored = parse_pbtxt(text, "the author's text")
    if authored == config:
        return CompletedText(text)
    added = ModelConfig()
    changed = _add_all(added, authored, config)
    if not changed:
        end = "" if text.endswith("\n") else "\n"
        heading = "" if ADDED in text else f"{ADDED}\n"
        longer = f"{text}{end}{heading}{print_pbtxt(added)}"
        if _says(longer, config):
            return CompletedText(longer)
    return CompletedText(print_pbtxt(config), changed or tuple(field.name for field, _ in added.ListFields()))


def _says(text: str, config: ModelConfig) -> bool:
    try:
        return bool(parse_pbtxt(text, "the completed text") == config)
    except ConfigError:  # a field would be there twice, once with a default that the message hides
        return False


def _add_all(added: ModelConfig, authored: ModelConfig, config: ModelConfig) -> tuple[str, ...]:
    """Add to `added` the fields of `config` that `authored` lacks. Return the author's fields that would change."""
    written = {field.name for field, _ in authored.ListFields()}
    wanted = {field.name for field, _ in config.ListFields()}
    changed = []
    for name in (field.name for field in config.DESCRIPTOR.fields):
        old, new = getattr(authored, name), getattr(config, name)
        if old == new and (name in written) == (name in wanted):
            continue
        if not _add(added, name, old, new, is_written=name in written):
            changed.append(name)
    return tuple(changed)


def _add(added: ModelConfig, name: str, old: Any, new: Any, *, is_written: bool) -> bool:
    """Add to the field the values of `new` that are not in `old`. Return False if the author's values would change."""
    if hasattr(new, "items"):
        return _add_entries(getattr(added, name), old, new)
    if hasattr(new, "append"):
        length = len(old)
        getattr(added, name).extend(new[length:])
        return list(new[:length]) == list(old)
    if is_written:
        return False
    if isinstance(new, Message):
        getattr(added, name).CopyFrom(new)
    else:
        setattr(added, name, new)
    return True


def _add_entries(added: Any, old: Any, new: Any) -> bool:
    for key in new:
        if key not in old:
            if isinstance(new[key], Message):
                added[key].CopyFrom(new[key])
            else:
                added[key] = new[key]
    return all(key in new and new[key] == old[key] for key in old)
