"""An author's text of config.pbtxt, completed: the fields that were added stand after it, and no byte of it changes."""

from __future__ import annotations

from typing import Any, NamedTuple

from google.protobuf.message import Message

from .model_config import ConfigError, ModelConfig, parse_pbtxt, print_pbtxt

#: The line between what the author wrote and what was added.
ADDED = "# added by tritonlab"


class CompletedText(NamedTuple):
    """A text, and the fields because of which it had to be printed from the message; none if it is the author's."""

    text: str
    printed_for: tuple[str, ...] = ()


def completed_text(text: str, config: ModelConfig) -> CompletedText:
    """Return the author's `text` with what `config` has besides, so that it parses to `config`.

    A text can only be continued: a field that is not in it, an element of a list, an entry of a map. If `config` says
    something else within a field that the author wrote, it is printed as a whole. Raises ConfigError for a text that
    does not parse.
    """
    authored = parse_pbtxt(text, "the author's text")
    if authored == config:
        return CompletedText(text)
    added = ModelConfig()
    changed = tuple(field.name for field in config.DESCRIPTOR.fields if not _add(added, authored, config, field))
    if not changed:
        end = "" if text.endswith("\n") else "\n"
        heading = "" if ADDED in text else f"{ADDED}\n"
        longer = f"{text}{end}{heading}{print_pbtxt(added)}" if text.strip() else print_pbtxt(added)
        if _says(longer, config):
            return CompletedText(longer)
    return CompletedText(print_pbtxt(config), changed or tuple(field.name for field, _ in added.ListFields()))


def _says(text: str, config: ModelConfig) -> bool:
    try:
        return bool(parse_pbtxt(text, "the completed text") == config)
    except ConfigError:  # a field stands there twice, once with its default value, which the message does not show
        return False


def _add(added: ModelConfig, authored: ModelConfig, config: ModelConfig, field: Any) -> bool:
    """Add to `added` what `config` has in `field` besides `authored`. Return False if the author's would change."""
    old, new = getattr(authored, field.name), getattr(config, field.name)
    if old == new and _is_set(authored, field) == _is_set(config, field):
        return True
    if hasattr(new, "items"):
        return _add_entries(getattr(added, field.name), old, new)
    if hasattr(new, "append"):
        kept = len(old)
        getattr(added, field.name).extend(new[kept:])
        return list(new[:kept]) == list(old)
    if _is_set(authored, field):
        return False
    if isinstance(new, Message):
        getattr(added, field.name).CopyFrom(new)
    else:
        setattr(added, field.name, new)
    return True


def _add_entries(added: Any, old: Any, new: Any) -> bool:
    for key in new:
        if key not in old:
            if isinstance(new[key], Message):
                added[key].CopyFrom(new[key])
            else:
                added[key] = new[key]
    return all(key in new and new[key] == old[key] for key in old)


def _is_set(config: ModelConfig, field: Any) -> bool:
    return any(found.name == field.name for found, _ in config.ListFields())
