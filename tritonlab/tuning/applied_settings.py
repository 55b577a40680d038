"""`AppliedSettings`, which loads a model with settings to keep, and can undo that."""

from __future__ import annotations

from collections.abc import Callable

from ..core.status import UnavailableError
from .settings import Settings

#: Loads a model with settings, and returns a function that loads it as it was.
Reload = Callable[[Settings], Callable[[], object]]


class AppliedSettings:
    """The settings applied to a model, with its state before the first ones."""

    def __init__(self, reload: Reload) -> None:
        self._reload = reload
        self._former: Callable[[], object] | None = None

    def apply(self, settings: Settings) -> None:
        """Load the model with the settings. Raises what a load does; the version that serves goes on then."""
        former = self._reload(settings)
        self._former = self._former or former

    def undo(self) -> None:
        """Load the model as it was before. Raises what a load does, and UnavailableError if nothing was applied."""
        if self._former is None:
            raise UnavailableError("no settings were applied, so there are none to undo")
        self._former()
        self._former = None
