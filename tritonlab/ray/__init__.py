"""Models on Ray: `application` serves a repository with Ray Serve, `map_batches` sends the rows of a Ray dataset.

Requires Ray, which is not installed with tritonlab: `pip install 'tritonlab[ray]'`.
"""

try:
    import ray as _  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("tritonlab.ray needs Ray: pip install 'tritonlab[ray]'", name=error.name) from None

from .batches import map_batches
from .deployment import application, make_application

__all__ = ["application", "make_application", "map_batches"]
