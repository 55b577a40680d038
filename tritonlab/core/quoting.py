"""Names and other texts as literals of the languages in which files are written: programs, commands, pages, manifests.

They come from configs, clients and other servers. Each passes through the function of its language here, or through
`shlex.quote`, `html.escape` or a writer of JSON, so that it stays the text that it is and none of it runs.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

_PLAIN_YAML = re.compile(r"[A-Za-z/][\w./-]*( [\w./-]+)*")
#: Words that some readers of YAML take for a boolean or null.
_YAML_WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}
#: A word that the line of a magic may have without quotes.
_BARE = re.compile(r"[^\s'\"\\]+")
_NOT_IN_XML = re.compile("[^\n\t -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def python_literal(value: object) -> str:
    """Return the Python expression of a value, texts in double quotes where they need no escape for it."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{python_literal(key)}: {python_literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def python_identifier(text: str) -> str:
    """Return the text as the end of a name in Python."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def file_stem(name: str) -> str:
    """Return the name as the beginning of a file's name, which is neither hidden nor an option of a command."""
    return re.sub(r"^[.-]|[^\w.-]", "_", name)


def one_line(text: str) -> str:
    """Return the text for a comment: all in one line, with escapes for what cannot be seen."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def magic_line(*words: str) -> str:
    """Return the line of a magic with these words, with quotes where they need some, and with doubled braces and
    dollars where IPython would put the value of an expression. What cannot be seen is an escape: it names nothing then,
    but no line has it otherwise."""
    shown = map(one_line, words)
    line = " ".join(word if _BARE.fullmatch(word) else shlex.quote(word) for word in shown)
    line = line.replace("{", "{{").replace("}", "}}")
    # IPython leaves dollars within single quotes, which it finds by counting those that follow
    ends = [found.end() for found in re.finditer(r"\$(?=[\w.])", line) if line.count("'", found.end()) % 2 == 0]
    for end in reversed(ends):
        line = f"{line[:end]}${line[end:]}"
    return line


def json_text(value: object) -> str:
    """Return a value as JSON, with escapes for what cannot be seen in its texts."""
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
    """Return the text for a template of Go, as Prometheus has them in labels and annotations of alerts."""
    return text.replace("{{", '{{"{{"}}')


def matplotlib_text(text: str) -> str:
    """Return the text for matplotlib, which takes what is between two dollars for a formula."""
    return text.replace("$", r"\$")


def xml_document(root: ElementTree.Element) -> bytes:
    """Return the XML of an element, with a replacement character for each that XML cannot hold, as control
    characters.
    """
    for element in root.iter():
        element.text = element.text and _NOT_IN_XML.sub("\ufffd", element.text)
        element.attrib.update({key: _NOT_IN_XML.sub("\ufffd", value) for key, value in element.items()})
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
