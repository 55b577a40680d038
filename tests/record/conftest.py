from tests.serving import lab

__all__ = ["lab"]
