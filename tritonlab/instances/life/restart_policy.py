"""`RestartPolicy`, the rule for how long an instance whose stub has ended waits before it starts another."""

from __future__ import annotations

_SECOND = 1_000_000_000
FIRST_PAUSE = _SECOND // 4
LONGEST_PAUSE = 60 * _SECOND
#: How many deaths in a row without an execution are followed by a start at once; a model's own threads may kill it.
FREE_DEATHS = 2
#: The same of stubs that were killed, where a start counts, too. A kill says nothing about the model, but it may be the
#: model's own, or that of something that kills whatever takes as much memory as this model.
FREE_KILLS = 8


def pause_after(failures: int) -> int:
    """Return the nanoseconds before the next start, after that many failures in a row."""
    return min(FIRST_PAUSE << min(failures - 1, 10), LONGEST_PAUSE)


class RestartPolicy:
    """The failures of one instance in a row. Each method returns the nanoseconds before the next start."""

    def __init__(self) -> None:
        self.failures = 0
        self._kills = 0

    def after_death(self, *, has_requests: bool, has_worked: bool, is_killed: bool) -> int:
        """Count the death of a stub that was READY. `has_requests`: it died with requests in flight; `has_worked`: it
        had executed something, or lived for long."""
        if has_requests or has_worked:
            self.failures, self._kills = int(not has_requests), 0
        elif is_killed and self._is_free_kill():
            return 0
        else:
            self.failures += 1
        return pause_after(self.failures) if self.failures > FREE_DEATHS else 0

    def after_failed_start(self, *, is_killed: bool) -> int:
        """Count a start that failed, because the model raised an error or its stub ended."""
        if is_killed and self._is_free_kill():
            return 0
        self.failures += 1
        return pause_after(self.failures)

    def _is_free_kill(self) -> bool:
        self._kills += 1
        return self._kills <= FREE_KILLS
