"""`AppliedSettings`, which loads a model with settings to keep, and can undo that."""

from __future__ import annotations

from collections.abc import Callable

from ..core.status import UnavailableError
from .settings import Settings

#: Loads a model with settings, and returns a function that loads it as it was.
Reload = Callable[[Settings], Callable[[], object]]


class Sentence(str):
    """A text that a cell shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class AppliedSettings:
    """The settings applied to a model, with its state before the first ones."""

    def __init__(self, name: str, reload: Reload) -> None:
        self._name = name
        self._reload = reload
        self._former: Callable[[], object] | None = None

    def apply(self, settings: Settings) -> Sentence:
        """Load the model with the settings, and return that in words. Raises what a load does; the version that serves
        goes on then."""
        former = self._reload(settings)
        self._former = self._former or former
        return Sentence(f"'{self._name}' is loaded with {settings}, until its cell runs; undo() loads it as it was.")

    def undo(self) -> Sentence:
        """Load the model as it was before, and return that in words. Raises what a load does, and UnavailableError if
        nothing was applied."""
        if self._former is None:
            raise UnavailableError("no settings were applied, so there are none to undo")
        self._former()
        self._former = None
        return Sentence(f"'{self._name}' is loaded as it was before apply().")
