"""The state of the kernel that JupyterLab shows while a cell runs.

For each message to a comm the kernel reports `busy` and then `idle`, also if a subshell serves it next to a running
cell. JupyterLab and its server take the last report for the state, so a panel that asks once a second would show a busy
kernel as idle. They skip reports whose parent has a type that the server does not track
(`MappingKernelManager.untracked_message_types` of jupyter_server, since JupyterLab 4.5): the served message gets such a
type before its end is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_UNTRACKED = "comm_info_request"


class KernelStatus:
    """The state of this kernel. `cell_runs`: set by the shell whose cells it runs."""

    def __init__(self) -> None:
        self.cell_runs: Callable[[], bool] = lambda: False

    def keep_busy(self, message: Any) -> None:
        """Keep the end of this comm's message, which this thread serves, from ending `busy` while a cell runs."""
        if self.cell_runs():
            message["header"]["msg_type"] = _UNTRACKED


#: of this process, which is one kernel
kernel_status = KernelStatus()
