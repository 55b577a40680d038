"""An `Application` loads a model with settings that somebody wants to keep, and takes that back."""

from __future__ import annotations

from collections.abc import Callable

from ..core.status import UnavailableError
from .settings import Settings

#: Loads a model with settings, and returns what loads it as it was.
Reload = Callable[[Settings], Callable[[], object]]


class Application:
    """Remembers how a model was before the first settings were applied."""

    def __init__(self, reload: Reload) -> None:
        self._reload = reload
        self._former: Callable[[], object] | None = None

    def apply(self, settings: Settings) -> None:
        """Loads the model. Raises what a load does; the version that serves goes on then."""
        former = self._reload(settings)
        self._former = self._former or former

    def undo(self) -> None:
        """Loads the model as it was before. Raises what a load does, and UnavailableError if nothing was applied."""
        if self._former is None:
            raise UnavailableError("nothing was applied that could be taken back")
        self._former()
        self._former = None
