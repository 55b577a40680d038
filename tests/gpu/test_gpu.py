"""The checks and bars of `python -m tests.gpu`: on this machine's card if it has one, and tried on a simulated one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.gpu.__main__ import LITTLE, main
from tests.gpu.bars import Bars
from tests.gpu.bench import Bench
from tests.gpu.cards import SimulatedCard, card, without_card
from tests.gpu.checks import CHECKS

on_card = pytest.mark.skipif(bool(without_card()), reason=without_card())


@pytest.fixture(scope="module")
def simulated() -> Iterator[Bench]:
    with Bench(SimulatedCard()) as bench:
        yield bench


@pytest.fixture(scope="module")
def real() -> Iterator[Bench]:
    with Bench(card()) as bench:
        yield bench


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_is_right_on_a_simulated_gpu(simulated: Bench, check: Callable[[Bench], None]) -> None:
    check(simulated)


def test_the_bars_can_be_measured_and_say_that_a_gpu_is_simulated(simulated: Bench) -> None:
    found = list(Bars(simulated, LITTLE).all())
    lines = [bar.line(simulated.card) for bar in found]
    assert len(lines) == 5
    assert all(line.startswith("tried ") and "on a simulated GPU" in line for line in lines), lines
    assert found[3].passed, found[3]  # memory stays flat there, too


@pytest.mark.skipif(not without_card(), reason="this machine has a card")
def test_without_a_card_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == f"nothing is measured: {without_card()}\n"


@on_card
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_is_right_on_the_card(real: Bench, check: Callable[[Bench], None]) -> None:
    check(real)


@on_card
def test_the_bars_are_passed_on_the_card(real: Bench) -> None:
    failed = [bar.line(real.card) for bar in Bars(real).all() if not bar.passed]
    assert not failed, failed
