"""A repository that a notebook has opened."""

from __future__ import annotations

from collections.abc import Sequence

from .authoring.opened_repository import OpenedRepository
from .views.card.opened_view import OpenedView, OpeningView
from .views.widget import running_cell


class Repository(OpenedRepository):
    """The models of a repository by their names, which the notebook's server serves from where they lie."""

    #: the cell below which the table was shown while models loaded
    _shown_below = ""

    def refresh(self, names: Sequence[str] | None = None) -> None:
        opening = OpeningView(self)
        try:
            with opening:
                super().refresh(names)
        finally:
            self._shown_below = running_cell() if opening.is_shown else ""

    def _ipython_display_(self) -> None:
        if not self._shown_below or self._shown_below != running_cell():
            OpenedView(self).show()

    def _repr_html_(self) -> str:
        return OpenedView(self).html()

    def __repr__(self) -> str:
        return repr(OpenedView(self))
