from __future__ import annotations

from tritonlab.notebook.views.ticker import Ticker


class Ticks:
    """A view; with `fails` every call of it raises, as when its frontend is gone."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.count = 0

    def tick(self) -> None:
        self.count += 1
        if self.fails:
            raise OSError("the frontend is gone")

    def failed(self, error: Exception) -> None:
        raise error


def test_a_view_that_cannot_even_fail_ends_no_other() -> None:
    ticker, broken, other = Ticker(interval=60), Ticks(fails=True), Ticks()
    ticker._running = True  # ticks are the test's
    ticker.add(broken)
    ticker.add(other)
    assert ticker.tick() and ticker.tick()
    assert (broken.count, other.count) == (1, 2) and broken not in ticker
    ticker.remove(other)
    assert not ticker.tick()
