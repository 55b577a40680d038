from __future__ import annotations

import pytest

from tritonlab.core.status import InvalidArgumentError
from tritonlab.frontends.shared.header_pattern import compile_pattern

from ...conformance.rules import rule

NAMES = ["X-My-Abc", "x-my-abc", "K", "s", "host", "my_header_1", "z9", "ab", "aab", "_"]


def found(pattern: str) -> list[str]:
    return [name for name in NAMES if compile_pattern(pattern).search(name)]


@rule("6.14")
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("X-MY", ["X-My-Abc", "x-my-abc"]),
        ("(?-i)x-my", ["x-my-abc"]),
        ("(?-i)X|(?i:HOST)|Z", ["X-My-Abc", "host"]),
        ("x(?-i)-M|_H", ["X-My-Abc"]),
        ("(?:(?-i)S)|K", ["K"]),
        ("\u212a|\u017f$", ["K", "s"]),  # letters of which k and s are the other case
        ("(?-i)\u212a|\u00e9", []),
        ("[^\u017f-\u2200a-jt-z-]$", ["my_header_1", "z9", "_"]),
        (r"(?-i)[[:upper:]]", ["X-My-Abc", "K"]),
        (r"(?i)[[:upper:]]{5}|[[:^word:]]my", ["X-My-Abc", "x-my-abc", "my_header_1"]),
        (r"\pN", ["my_header_1", "z9"]),
        (r"^\P{L}|\p{Lu}{6}", ["my_header_1", "_"]),
        (r"(?-i)^\p{Lu}[\p{^Ll}]|^\p{Latin}\p{Common}$", ["X-My-Abc", "z9"]),
        (r"^\p{Any}\z", ["K", "s", "_"]),
        (r"^\C\C\z", ["z9", "ab"]),
        (r"(?U)^a+b$", ["ab", "aab"]),
        (r"(?sm)^(?P<n>a)(?P<é>b)$", ["ab"]),
        (r"\Qy_\E+h", ["my_header_1"]),
        (r"^(?:^*a{2})*\x62\x{62}*$|\137\z|\172[\d-]", ["z9", "aab", "_"]),
        (r"^[]a-]{,2}$|^[a\]]b$", ["ab"]),
        (r"\bmy\b", ["X-My-Abc", "x-my-abc"]),
        (r"a*(?i)*b{1}?$", ["ab", "aab"]),
    ],
)
def test_a_pattern_is_found_in_the_names_that_re2_finds_it_in(pattern: str, names: list[str]) -> None:
    assert found(pattern) == [name for name in NAMES if name in names]


@rule("6.14")
@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "invalid perl operator: (?="),
        ("(?<n>a)", "invalid perl operator: (?<"),
        ("(?>a)", "invalid perl operator: (?>"),
        ("(?i-)a", "invalid perl operator: (?i"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"a\Z", r"invalid escape sequence: \Z"),
        (r"[\b]", r"invalid escape sequence: \b"),
        (r"\x{110000}", r"invalid escape sequence: \x{110000}"),
        ("a\\", "trailing \\"),
        ("a*+", "bad repetition operator: *+"),
        ("a{2}{3}", "bad repetition operator: {2}{3}"),
        ("a|*", "no argument for repetition operator: *"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("(a{40}){40}", "invalid repetition size: {40}"),
        ("a{3,2}", "invalid repetition size: {3,2}"),
        ("(a", "missing ): (a"),
        ("a)", "unexpected ): a)"),
        ("[a", "missing ]: [a"),
        ("[z-a]", "invalid character class range: z-a"),
        ("[a-", "invalid character class range: a-"),
        ("[[:foo:]]", "invalid character class range: [:foo:]"),
        (
            r"\p{Greek}",
            r"invalid character class range: \p{Greek} (of scripts, only Latin and Common have characters that a "
            "header's name can have)",
        ),
        ("\udcff", "invalid UTF-8"),
        ("(" * 9999 + "a" + ")" * 9999, "its groups are nested too deep"),
    ],
)
def test_what_re2_does_not_take_is_refused_with_its_reason(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        compile_pattern(pattern)
    assert raised.value.message == f"'{pattern}' is not a regular expression of RE2: {reason}"
