from __future__ import annotations

from tritonlab.ipc.processes.stub_log import UNPRINTABLE, LogBook, LogRecord
from tritonlab.server.observe.print_check import PrintCheck


def warnings(*records: LogRecord) -> list[LogRecord]:
    """Return what the log has besides `records`."""
    log = LogBook()
    check = PrintCheck(log)
    for record in records:
        check.log(record)
    return log.records()


def printed(text: str, pid: int = 5, stream: str = "stdout") -> LogRecord:
    return LogRecord(1, "m", 1, "m_0_0", stream, "INFO", text, pid=pid)


def test_the_first_line_of_a_process_that_is_not_ascii_is_warned_of() -> None:
    first, second = warnings(printed("plain"), printed("grüße"), printed("süß"), printed("grüße", pid=6))
    assert first.text.startswith(f"{UNPRINTABLE}print() of 'grüße' raises UnicodeEncodeError")
    assert (first.level, first.stream, first.pid, first.unchecked) == ("WARNING", "server", 5, True)
    assert (second.pid, second.instance) == (6, "m_0_0")


def test_what_triton_prints_is_not() -> None:
    assert not warnings(printed("plain"), printed("ü", stream="stderr"), printed("ü", stream="log"))


def test_a_long_line_is_cut() -> None:
    (warning,) = warnings(printed("ü" * 1000))
    assert "'" + "ü" * 39 + "…'" in warning.text
