from tests.serving import lab, script

__all__ = ["lab", "script"]
