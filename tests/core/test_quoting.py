from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from IPython.utils.text import DollarFormatter
from markdown_it import MarkdownIt

from tests.hostile import NAMES, nothing_runs, quick
from tritonlab.core.quoting import (
    file_stem,
    go_template_text,
    json_text,
    magic_line,
    markdown_code,
    matplotlib_text,
    one_line,
    python_identifier,
    python_literal,
    xml_document,
    yaml_scalar,
)


@quick
@given(NAMES)
def test_a_text_is_itself_in_each_language(name: str) -> None:
    assert ast.literal_eval(python_literal(name)) == name and len(python_literal(name).splitlines()) == 1
    assert ast.literal_eval(python_literal({name: [name]})) == {name: [name]}
    assert json.loads(json_text({name: name})) == {name: name}
    assert yaml.safe_load(f"{yaml_scalar(name)}: {yaml_scalar(name)}\n") == {name: name}
    assert f"def x_{python_identifier(name)}(): pass" and f"x_{python_identifier(name)}".isidentifier()
    assert one_line(name).isprintable()
    stem = file_stem(name)
    assert "/" not in stem and stem.isprintable() and stem[0] not in "-." and shlex.quote(f"{stem}.sh")[0] != "-"


@pytest.mark.parametrize(
    "word", ["no", "On", "true", "NULL", "y", "1", "1e3", "-c", "50m", "~", "", " a", "a: b", "#a"]
)
def test_a_word_of_yaml_stays_a_text(word: str) -> None:
    assert yaml.safe_load(f"key: {yaml_scalar(word)}\n") == {"key": word}


@quick
@given(st.lists(NAMES, min_size=1, max_size=3))
def test_a_name_is_one_word_of_a_magic_and_no_expression(names: list[str]) -> None:
    values = dict.fromkeys(("RAN", "a", "Z", "touch"), "a value")
    with nothing_runs():
        expanded = DollarFormatter().vformat(magic_line("%triton", "kill", *names), args=[], kwargs=values)
    assert shlex.split(expanded) == ["%triton", "kill", *map(one_line, names)]


@quick
@given(NAMES)
def test_a_text_is_code_in_markdown_and_nothing_else(name: str) -> None:
    code = markdown_code(name)
    text = f"# {code} there\n\n| a | b |\n|---|---|\n| {code} | b |\n\nin {code}.\n"
    page = MarkdownIt().enable("table").render(text)
    found = _Page(page)
    assert found.codes == [one_line(name)] * 3
    assert found.tags == {"h1", "table", "thead", "tbody", "tr", "th", "td", "p", "code"}


@quick
@given(NAMES)
def test_a_text_is_no_template_and_no_formula(name: str) -> None:
    text = go_template_text(name)
    actions = re.findall(r"\{\{.*?\}\}", text, re.DOTALL)
    assert set(actions) <= {'{{"{{"}}'}
    assert text.replace('{{"{{"}}', "{{") == name
    cbook = pytest.importorskip("matplotlib.cbook")
    assert not cbook.is_math_text(matplotlib_text(name))


@quick
@given(NAMES)
def test_xml_has_what_it_can_hold(name: str) -> None:
    root = ElementTree.Element("suite", name=name)
    root.text = name
    read = ElementTree.fromstring(xml_document(root))
    replaced = re.sub("[^\n\t -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", name)
    assert read.text == replaced and read.get("name") == replaced


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_comment_of_a_shell_has_one_line(shell: str) -> None:
    text = f"# {one_line(chr(10) + 'echo a' + chr(13) + 'echo b' + chr(0x85))}\n"
    assert subprocess.run([shell, "-c", text], capture_output=True, check=True).stdout == b""


def test_numbers_that_python_has_no_literal_for() -> None:
    numbers = {"a": float("inf"), "b": float("nan"), "c": 1.5}
    assert repr(eval(python_literal(numbers))) == repr(numbers)
    assert python_literal("it's") == '"it\'s"' and python_literal("m") == '"m"' and python_literal('"') == "'\"'"


class _Page(HTMLParser):
    """The tags of a page, and the texts of its code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.codes: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self._inside = tag == "code"
        if self._inside:
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.codes[-1] += data
