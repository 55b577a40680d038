from __future__ import annotations

import inspect
from dataclasses import dataclass, replace

import pytest

from tritonlab.core.unknown_option import UnknownOption, explains_unknown, nearest

KNOWN = ["concurrency", "seconds"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [("concurency", "did you mean 'concurrency'?"), ("nope", "it takes concurrency, seconds")],
)
def test_it_says_what_to_write_instead(name: str, advice: str) -> None:
    with pytest.raises(UnknownOption) as caught:
        UnknownOption.check("load_test", ["seconds", name], KNOWN)
    assert str(caught.value) == f"load_test() has no option '{name}': {advice}"
    assert caught.value.fix == advice and caught.value.to_dict()["code"] == "INVALID_ARG"
    assert caught.value.where == f"load_test({name}=…)"


@pytest.mark.parametrize(
    ("word", "meant"),
    [("bcd", "bcde"), ("BCDE", "bcde"), ("Other", "a"), ("othr", "a"), ("duration", "seconds"), ("xyz", "")],
)
def test_a_synonym_counts_and_is_spelt_nearly_right(word: str, meant: str) -> None:
    assert nearest(word, ["a", "bcde", "seconds"], {"a": "other more"}) == meant


@explains_unknown
def scaled(size: int, /, *factors: int, by: int = 2) -> int:
    """Return it."""
    return size * by


@explains_unknown
@dataclass(frozen=True, kw_only=True)
class Shades:
    dark: bool = False


class Form:
    @explains_unknown
    def show(self, kind: str = "timeline") -> str:
        return kind


def test_a_function_a_method_and_a_dataclass_explain_what_they_do_not_take() -> None:
    for call, text in (
        (lambda: scaled(2, byy=3), "scaled() has no option 'byy': did you mean 'by'?"),
        (lambda: scaled(2, size=3), "scaled() has no option 'size': it takes by"),
        (lambda: Form().show(kid="x"), "show() has no option 'kid': did you mean 'kind'?"),
        (lambda: Form().show(self=1), "show() has no option 'self': it takes kind"),
        (lambda: Shades(drak=True), "Shades() has no option 'drak': did you mean 'dark'?"),
    ):
        with pytest.raises(UnknownOption) as caught:
            call()  # type: ignore[no-untyped-call]
        assert str(caught.value) == text
    assert (scaled(2, by=3), Form().show(kind="x"), replace(Shades(), dark=True)) == (6, "x", Shades(dark=True))
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        scaled()  # type: ignore[call-arg]
    assert str(inspect.signature(scaled)) == "(size: 'int', /, *factors: 'int', by: 'int' = 2) -> 'int'"
    assert "dark: 'bool' = False" in str(inspect.signature(Shades)) and scaled.__doc__ == "Return it."


def test_known_options_pass() -> None:
    UnknownOption.check("load_test", KNOWN, KNOWN)
