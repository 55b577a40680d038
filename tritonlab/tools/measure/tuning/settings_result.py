"""A result of tuning with settings to apply."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

from ....core.config.model_config import ModelConfig
from ....core.plain_facts import Shown
from ....core.status import UnavailableError
from ....notebook.authoring.settings import Settings

#: Loads a model with settings, and returns a function that loads it as it was.
Reload = Callable[[Settings], Callable[[], object]]


class Sentence(str):
    """A text that a cell shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _refuse(settings: Settings) -> NoReturn:
    raise UnavailableError("settings can only be applied in the process that has found them")


class SettingsResult(Shown):
    """A result with settings to apply. `present`: the settings before; `authored`: the configuration, with the instance
    groups as the author wrote them.
    """

    def __init__(self, name: str, present: Settings, authored: ModelConfig, reload: Reload) -> None:
        self.name = name
        self.present = present
        self._authored = authored
        self._reload = reload
        #: loads the model as it was before the first settings
        self._former: Callable[[], object] | None = None
        self._when = time.time()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_reload": _refuse, "_former": None}

    def _chosen(self) -> Settings:
        """Return the settings to apply. Raises UnavailableError if none were found."""
        raise NotImplementedError

    @property
    def config(self) -> str:
        """The lines of config.pbtxt for the settings. Raises UnavailableError if none were found."""
        return self._chosen().pbtxt(self._authored)

    def apply(self) -> Sentence:
        """Load the model with the settings, and return that in words. The text of its cell is unchanged; add `config`
        there to keep the settings. Raises the errors of a load, after which the old version still serves, and
        UnavailableError if no settings were found.
        """
        settings = self._chosen()
        former = self._reload(settings)
        self._former = self._former or former
        return Sentence(f"'{self.name}' is loaded with {settings}, until its cell runs; undo() loads it as it was.")

    def undo(self) -> Sentence:
        """Load the model as it was before `apply`, and return that in words. Raises the errors of a load, and
        UnavailableError if nothing was applied.
        """
        if self._former is None:
            raise UnavailableError("no settings were applied, so there are none to undo")
        self._former()
        self._former = None
        return Sentence(f"'{self.name}' is loaded as it was before apply().")

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        raise NotImplementedError
