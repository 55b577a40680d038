"""The lines of a log, as 2.51 writes them."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest

from tritonlab.core.observe.log_settings import LogSetting, LogSettings
from tritonlab.ipc.processes.stub_log import LogRecord
from tritonlab.server.observe.log_writer import LogWriter, record_prefix

#: 2026-11-21 02:57:16.955856 UTC
MOMENT = 1_795_229_836_955_856_123


def record(stream: str = "log", level: str = "INFO", text: str = "hello", file: str = "/m/1/model.py") -> LogRecord:
    return LogRecord(MOMENT, "m", 1, "m_0_0", stream, level, text, file, 4 if file else 0)


class Written:
    """A writer on streams of its own, and what it has written to them."""

    def __init__(self, setting: LogSetting | None = None) -> None:
        self.stdout, self.stderr = io.StringIO(), io.StringIO()
        self.settings = LogSettings(setting or LogSetting())
        self.writer = LogWriter(self.settings, self.stdout, self.stderr)

    def log(self, *records: LogRecord) -> str:
        for each in records:
            self.writer.log(each)
        return re.sub(r" \d+ (\S+:\d+\])", r" PID \1", self.stderr.getvalue())


@pytest.mark.parametrize(
    ("log_format", "prefix"), [("default", "W1121 02:57:16.955856"), ("ISO8601", "2026-11-21T02:57:16Z W")]
)
def test_the_prefix(log_format: str, prefix: str) -> None:
    assert record_prefix(log_format, "WARNING", MOMENT) == prefix


def test_a_record_of_a_model() -> None:
    assert Written().log(record(text='say "hi"\nü')) == ('I1121 02:57:16.955856 PID model.py:4] "say \\"hi\\"\\nü"\n')


def test_a_record_of_the_server_names_no_line() -> None:
    assert Written().log(record("server", "ERROR", "died", "")) == 'E1121 02:57:16.955856 PID tritonlab:0] "died"\n'


def test_what_models_print_goes_out_as_it_is() -> None:
    written = Written(LogSetting(log_info=False))
    assert written.log(record("stdout", text="out"), record("stderr", text="err")) == "err\n"
    assert written.stdout.getvalue() == "out\n"


def test_the_settings_choose_and_format_while_it_runs() -> None:
    written = Written()
    assert written.log(record(level="VERBOSE")) == ""
    written.settings.update({"log_verbose_level": 1, "log_info": False, "log_format": "ISO8601"})
    assert written.log(record(level="VERBOSE", text="v"), record()) == '2026-11-21T02:57:16Z I PID model.py:4] "v"\n'


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        ("LOADING", "", "loading: m:1"),
        ("READY", "", "successfully loaded 'm' version 1"),
        ("UNAVAILABLE", "unloaded", "successfully unloaded 'm' version 1"),
        ("UNAVAILABLE", "no such file", ""),
        ("UNLOADING", "", ""),
    ],
)
def test_states_of_models_are_logged(state: str, reason: str, text: str) -> None:
    written = Written()
    written.writer.model_state("m", 1, state, reason, 0)
    assert written.log().partition("] ")[2] == (f'"{text}"\n' if text else "")


def test_a_file_takes_the_records_and_is_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("before\n")
    written = Written(LogSetting(log_file=str(file)))
    assert written.log(record(), record("stderr", text="err")) == "err\n"
    written.writer.write_table("+--+\n")
    written.writer.close()
    lines = file.read_text().splitlines()
    assert (lines[0], lines[1][-7:], lines[2]) == ("before", '"hello"', "+--+")
    written.writer.close()
    assert written.log(record()).endswith('"hello"\n')


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    written = Written(LogSetting(log_file=str(tmp_path / "no" / "log")))
    assert "cannot be opened" in written.log(record())
    assert written.log().endswith('"hello"\n')


def test_a_log_file_on_a_full_disk_gives_way_to_stderr() -> None:
    written = Written(LogSetting(log_file="/dev/full"))
    lines = written.log(record(text="first"), record(text="second")).splitlines()
    assert "the log file '/dev/full' cannot be written: [Errno 28]" in lines[0]
    assert '"first"' in lines[1] and '"second"' in lines[2] and len(lines) == 3
    written.writer.write_table("table")
    written.writer.close()


def test_a_stream_that_cannot_be_written_stops_nothing() -> None:
    with open("/dev/full", "w") as full:
        writer = LogWriter(LogSettings(LogSetting()), full, full)
        writer.log(record())
        writer.log(record("stdout"))
        with pytest.raises(OSError, match="No space"):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_text_that_a_stream_cannot_encode_is_escaped(tmp_path: Path) -> None:
    file = tmp_path / "log"
    printed = io.BytesIO()
    stdout, stderr = io.TextIOWrapper(printed, "ascii"), io.StringIO()
    writer = LogWriter(LogSettings(LogSetting(log_file=str(file))), stdout, stderr)
    writer.log(record("stdout", text="ü"))
    writer.log(record(text="lone \udc80"))
    writer.log(record(text="later"))
    writer.close()
    assert printed.getvalue() == b"\\xfc\n"
    assert [line.partition("] ")[2] for line in file.read_text().splitlines()] == ['"lone \\udc80"', '"later"']
    assert stderr.getvalue() == ""
