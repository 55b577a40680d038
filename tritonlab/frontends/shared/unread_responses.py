"""The bound on the responses of one request or stream that wait because their client does not read them.

Triton has none: it keeps them all, until its memory is used up.
"""

from __future__ import annotations

#: Bytes that a response which waits takes in memory beside its own, about.
OVERHEAD = 150


def too_much_unread(most: int) -> str:
    """Return what a client hears that has left more than `most` bytes unread."""
    return (
        f"the client has left more than {most} bytes of responses unread; read them as they come, or ask for fewer "
        "('--max-unread-size=<bytes>' of 'tritonlab serve', or max_unread_size of 'Options' and 'serve()', sets "
        "another limit)"
    )
