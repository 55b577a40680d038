"""Rows as the CSV of perf_analyzer's `-f`, for the programs that read those files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from .load_plan import CONCURRENCY
from .load_row import LoadRow

#: The columns after the level of load, as perf_analyzer writes them; times are whole microseconds.
COLUMNS = (
    *("Inferences/Second", "Client Send", "Network+Server Send/Recv", "Server Queue", "Server Compute Input"),
    *("Server Compute Infer", "Server Compute Output", "Client Recv"),
    *("p50 latency", "p90 latency", "p95 latency", "p99 latency"),
)


def csv_text(mode: str, rows: Sequence[LoadRow]) -> str:
    """Return the file's text, in the order of throughput. Columns that the server does not report are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["Concurrency" if mode == CONCURRENCY else "Request Rate", *COLUMNS])
    for row in sorted(rows, key=lambda row: row.inferences_per_s):
        server, latency = row.server, row.latency
        times: list[float | None] = [row.client_send_us, row.network_us]
        times += [server.queue_us, server.compute_input_us, server.compute_infer_us] if server else [None] * 3
        times += [server.compute_output_us if server else None, row.client_receive_us]
        times += [latency.p50, latency.p90, latency.p95, latency.p99] if latency else [None] * 4
        level = f"{row.level:.6g}"
        writer.writerow([level, f"{row.inferences_per_s:.6g}", *("" if t is None else round(t) for t in times)])
    return text.getvalue()
