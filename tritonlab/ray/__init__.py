"""Models on Ray: `application` serves a repository with Ray Serve, `map_batches` sends the rows of a Ray dataset.

Needs Ray, which tritonlab does not bring: `pip install 'tritonlab[ray]'`.
"""

from .batches import map_batches
from .deployment import application, make_application

__all__ = ["application", "make_application", "map_batches"]
