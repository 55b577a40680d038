"""The store of what happens to models: who is called, when, and on which thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from tests.serving import eventually
from tritonlab.ipc.processes.stub_log import LogRecord
from tritonlab.notebook.views.card.model_states import ModelStates


class Looks:
    """A count of looks, of which the first `moves` find a model on the move."""

    def __init__(self, moves: int = 0) -> None:
        self.count = 0
        self.moves = moves
        self.threads: set[str] = set()

    def __call__(self) -> bool:
        self.count += 1
        self.threads.add(threading.current_thread().name)
        return self.count <= self.moves


def record(stream: str) -> LogRecord:
    return LogRecord(0, "m", 1, "m_0", stream, "INFO", "text")


def quiet(states: ModelStates) -> bool:
    return states._thread is None


def after(states: ModelStates, looks: Looks, happens: Callable[[], None]) -> int:
    """Return how many looks follow on what happens."""
    eventually(lambda: quiet(states))
    before = looks.count
    happens()
    eventually(lambda: quiet(states))
    return looks.count - before


def test_a_follower_hears_of_its_model_and_of_no_other() -> None:
    states, of_one, of_all = ModelStates(), Looks(), Looks()
    states.follow(of_one, "m")
    states.follow(of_all)
    assert after(states, of_one, lambda: states.model_state("m", 1, "READY", "", 0)) == 1
    assert after(states, of_one, lambda: states.model_state("other", 1, "READY", "", 0)) == 0
    assert after(states, of_all, lambda: states.model_state("other", 1, "READY", "", 0)) == 1
    assert after(states, of_one, lambda: states.log(record("server"))) == 1  # a death
    assert after(states, of_one, lambda: states.log(record("stdout"))) == 0
    assert of_one.threads == {"model states"}
    states.leave(of_one)
    assert after(states, of_one, lambda: states.poke("m")) == 0


def test_copies_of_requests_are_looked_at_now_and_then() -> None:
    states, looks = ModelStates(), Looks()
    states.follow(looks, "m")

    def copied(second: int) -> None:
        states.bytes_copied("m", 1, 0, 8, 0, True, second * 1_000_000_000)

    assert after(states, looks, lambda: copied(1)) == 1
    assert after(states, looks, lambda: copied(2)) == 0
    assert after(states, looks, lambda: copied(3)) == 1


def test_what_is_on_the_move_is_looked_at_until_it_has_settled() -> None:
    states, looks = ModelStates(), Looks(moves=3)
    assert after(states, looks, lambda: states.follow(looks, "m")) == 4


def test_changes_that_come_together_are_one() -> None:
    states, looks = ModelStates(), Looks()
    states.follow(looks, "m")
    assert after(states, looks, lambda: [states.poke("m") for _ in range(50)] and None) <= 2


def test_the_form_of_the_cards_follows_its_model_next_to_any_number_of_forms() -> None:
    class Form(Looks):
        closed: Callable[[], object]

        def renew(self) -> bool:
            return self()

        def close(self) -> None:
            self.closed()

    states, of_cards, first = ModelStates(), Form(), Form()
    states.playgrounds["m"] = cast(Any, of_cards)
    for form in (of_cards, first, *(Form() for _ in range(8))):
        states.follow_form(cast(Any, form), "m")
    assert after(states, of_cards, lambda: states.poke("m")) == 1
    assert after(states, first, lambda: states.poke("m")) == 0


def test_a_follower_that_raises_is_left_out() -> None:
    states, looks = ModelStates(), Looks()

    def broken() -> bool:
        raise ValueError("broken")

    states.follow(broken, "m")
    states.follow(looks, "m")
    eventually(lambda: quiet(states))
    assert after(states, looks, lambda: states.poke("m")) == 1
    assert broken not in states._followers
