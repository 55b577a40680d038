from .triton_bindings import *  # noqa: F403 - what it lists in `__all__`
