from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tritonlab.core.metrics.prometheus_text import PrintedFamily, label_text, number_text, render


@pytest.mark.parametrize(
    ("value", "text"),
    [  # read from tritonserver 2.51
        (0, "0"),
        (1.5, "1.5"),
        (-1.5, "-1.5"),
        (3e5, "300000"),
        (123456789, "123456789"),
        (1e20, "1e+20"),
        (1e-7, "1e-07"),
        (0.1 + 0.2, "0.3"),
        (1234567890123456789, "1.234567890123457e+18"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "Nan"),
    ],
)
def test_numbers_are_written_like_tritons(value: float, text: str) -> None:
    assert number_text(value) == text


def test_label_values_are_escaped() -> None:
    assert label_text([("model", 'a"b\\c\nd'), ("z", "1")]) == r'{model="a\"b\\c\nd",z="1"}'
    assert label_text([]) == ""


def test_a_family_without_samples_prints_nothing() -> None:
    assert render([PrintedFamily("empty", "gauge", "help")]) == ""


def test_an_empty_help_prints_no_line() -> None:
    assert render([PrintedFamily("a", "gauge", "", [("", [], 1)])]) == "# TYPE a gauge\na 1\n"


def test_families_of_one_name_are_one_block() -> None:
    first = PrintedFamily("a", "counter", "first", [("", [("x", "1")], 1)])
    second = PrintedFamily("a", "counter", "second", [("", [("x", "2")], 2)])
    other = PrintedFamily("b", "gauge", "other", [("", [], 3)])
    assert render([first, other, second]) == (
        '# HELP a first\n# TYPE a counter\na{x="1"} 1\na{x="2"} 2\n# HELP b other\n# TYPE b gauge\nb 3\n'
    )
    assert len(first.samples) == 1


def test_the_reference_parser_reads_it_back() -> None:
    family = PrintedFamily("a", "gauge", 'back \\ slash " and\nnewline', [("", [("x", 'q"\\\n')], 2.5), ("", [], 1)])
    (found,) = text_string_to_metric_families(render([family]))
    assert (found.name, found.type, found.documentation) == ("a", "gauge", family.help)
    assert [(sample.labels, sample.value) for sample in found.samples] == [({"x": 'q"\\\n'}, 2.5), ({}, 1)]
