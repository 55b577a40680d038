"""A repository that a notebook has opened."""

from __future__ import annotations

from .authoring.opened_repository import OpenedRepository
from .views.card.opened_view import OpenedView


class Repository(OpenedRepository):
    """The models of a repository by their names, which the notebook's server serves from where they lie."""

    def _ipython_display_(self) -> None:
        OpenedView(self).show()

    def _repr_html_(self) -> str:
        return OpenedView(self).html()

    def __repr__(self) -> str:
        return repr(OpenedView(self))
