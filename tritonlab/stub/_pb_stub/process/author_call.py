"""The steps after every call of the author's code: flush its prints, turn errors into data, end its forks."""

from __future__ import annotations

import os
from typing import Any, Callable, NoReturn, Optional, Sequence

from ..wire.message_bodies import Failed, Failure, Finalize, Initialize, Result
from ..wire.serialization import bounded
from .author_error import failure_of, traceback_text
from .frame_states import frame_states
from .model_context import ModelFailure
from .prints import flush_prints, print_error
from .stub_bridge import StubBridge


def result_of(bridge: StubBridge, handler: Callable[[Any], Any], body: Any) -> Result:
    """Call `handler(body)`, which may run the author's code, and return its value or its failure."""
    try:
        result = Result(handler(body))
    except ModelFailure as failure:
        result = Result(None, Failure(bounded(str(failure))))
    except BaseException as error:  # SystemExit too: Triton reports it like any other (rule 2.5.5)
        result = Result(None, failure_of(error))
        if type(body) in (Initialize, Finalize):
            report_failure(bridge, result.failure, error)
    if bridge.abandoned:
        leave_fork(None)
    flush_prints()
    return result


def report_failure(
    bridge: StubBridge, failure: Optional[Failure], error: Optional[BaseException], handles: Sequence[int] = ()
) -> None:
    """Send a failure that ends the requests `handles`, with the exception's origin, to a server that wants reports."""
    if error is not None and bridge.phase == "execute":
        bridge.last_error.keep(error)
    if bridge.tells_failures and failure is not None and not bridge.abandoned:
        frames = [] if error is None else frame_states(error)
        bridge.tell(Failed(list(handles), bridge.phase, failure, frames))


def leave_fork(error: Optional[BaseException]) -> NoReturn:
    """End a process that the model forked and that has returned from the model's code into the stub's: on Triton it
    continues and disturbs its parent.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        print_error(traceback_text(error))
        status = 1
    flush_prints()
    os._exit(status & 0xFF)
