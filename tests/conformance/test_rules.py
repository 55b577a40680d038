"""The reading of the rule book and the count of what is proved."""

from __future__ import annotations

import pytest

from . import rules
from .rules import BOOK, REASONS, numbers, reason, report


def test_the_book_yields_numbered_rules_and_what_stands_before_them() -> None:
    book = "# 1. A\nin short\n## 1.1 B\n\n| table |\n- **1.1.1** x\n| its table |\n## 1.2 C\n- **1.2.1** y\n## 1.3 D\n"
    assert numbers(book + "words\nmore\n---\n# 7. E\n- **7.1.1** z\n") == ["1.1", "1.1.1", "1.2.1", "1.3"]


def test_the_real_book_has_all_its_rules() -> None:
    found = numbers(BOOK.read_text(encoding="utf-8"))
    assert len(found) == len(set(found))
    assert {"1.4.7", "1.16", "3.2", "3.2.1", "5.14.3", "6.13.1"} <= set(found)
    assert not any(n.startswith(("7", "8", "9")) for n in found)


def test_a_rule_is_proved_on_both_sides_on_ours_or_open_with_a_reason() -> None:
    lines = report(["1.4.7", "2.7.1", "5.6.2", "5.7.1"], {"1.4.7": 2, "5.7.1": 1}, {"1.4.7": 1, "2.7.1": 1})
    states = [line.split(maxsplit=1)[1].split("  ")[0] for line in lines[:4]]
    assert states == ["proved", "proved on our side only", "open", "open"]
    assert lines[1].endswith(f"1 tests: {reason('2.7.1')}")
    assert lines[2].endswith(reason("5.6.2"))
    assert lines[-1] == "1 proved, 1 proved on our side only, 2 open"


def test_every_reason_is_of_one_rule() -> None:
    assert set(REASONS) <= set(numbers(BOOK.read_text(encoding="utf-8")))


def test_without_the_real_server_nothing_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rules, "missing", lambda: "build/reference/venv is not there")
    assert rules.main() == 1
    message = "no rule can be proved without the real server, which is not here: "
    assert capsys.readouterr().out == f"{message}build/reference/venv is not there\n"
