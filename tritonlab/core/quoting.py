"""Names and other texts as literals of the languages of generated files: programs, commands, pages, manifests.

The texts come from configs, clients and other servers. Each passes through the function of its language here, or
through `shlex.quote`, `html.escape` or a writer of JSON, so that it stays the same text and no part of it runs.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from urllib.parse import quote

_PLAIN_YAML = re.compile(r"[A-Za-z/][\w./-]*( [\w./-]+)*")
#: Words that some readers of YAML read as a boolean or null.
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}
#: A word that needs no quotes in the line of a magic.
_BARE = re.compile(r"[^\s'\"\\]+")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NOT_IN_XML = re.compile("[^\n\t -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def python_literal(value: object) -> str:
    """Return a value as a Python expression, with texts in double quotes unless that needs an escape."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{python_literal(key)}: {python_literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def python_identifier(text: str) -> str:
    """Return the text as the end of a Python name."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def file_stem(name: str) -> str:
    """Return the name as the start of a file name that is neither hidden nor an option of a command."""
    return re.sub(r"^[.-]|[^\w.-]", "_", name)


def npz_name(name: str) -> str:
    """Return the name of an array in a `.npz`: a zip file cuts a name at a NUL, and numpy cuts off `.npy`."""
    return quote(name, safe="", errors="surrogatepass").replace(".npy", "%2Enpy")


def one_line(text: str) -> str:
    """Return the text for a comment: in one line, with escapes for invisible characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def without_colours(text: str) -> str:
    """Return a text without the colours of a terminal, such as IPython's tracebacks have."""
    return _COLOUR.sub("", text)


def magic_line(*words: str) -> str:
    """Return the line of a magic with these words, quoted where necessary, with braces and dollars doubled where
    IPython would expand them. Invisible characters are escaped; such a word names nothing, but the line stays valid.
    """
    shown = map(one_line, words)
    line = " ".join(word if _BARE.fullmatch(word) else shlex.quote(word) for word in shown)
    line = line.replace("{", "{{").replace("}", "}}")
    # IPython keeps dollars within single quotes, which it finds by counting the quotes that follow up to a brace
    dollars = re.finditer(r"\$(?=[\w.]([^{}]*))", line)
    ends = [found.end() for found in dollars if found[1].count("'") % 2 == 0]
    for end in reversed(ends):
        line = f"{line[:end]}${line[end:]}"
    return line


def json_text(value: object) -> str:
    """Return a value as JSON, with escapes for invisible characters."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def yaml_scalar(value: str | int | float | bool) -> str:
    """Return a value as a scalar of YAML."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN_YAML.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    if '"' in value and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def markdown_code(text: str) -> str:
    """Return the text as code of Markdown, also in a table."""
    text = one_line(text)
    if text == text.strip(" ") and text and not {"`", "|"} & set(text):
        return f"`{text}`"
    return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in text)}</code>"


def go_template_text(text: str) -> str:
    """Return the text for a Go template, as in labels and annotations of Prometheus alerts."""
    return text.replace("{{", '{{"{{"}}')


def matplotlib_text(text: str) -> str:
    """Return the text for matplotlib, which reads text between two dollars as a formula."""
    return text.replace("$", r"\$")


def xml_document(root: ElementTree.Element) -> bytes:
    """Return the XML of an element, with a replacement character for each character that XML cannot hold."""
    for element in root.iter():
        element.text = element.text and _NOT_IN_XML.sub("\ufffd", element.text)
        element.attrib.update({key: _NOT_IN_XML.sub("\ufffd", value) for key, value in element.items()})
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
