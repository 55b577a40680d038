from __future__ import annotations

from pathlib import Path

from tests.models import ADD_SUB, ADD_SUB_CONFIG
from tests.request_walk import walk, walk_over_http
from tests.serving import write_model
from tritonlab import Server

#: Frames of ours on the stack when a request is sent to its stub: a hint to look whether one of them does something.
#: In November 2026 they had grown from 11 to 15.
DEEPEST, DEEPEST_OVER_HTTP = 12, 16


def test_a_request_is_sent_from_no_deeper_than_it_must(tmp_path: Path) -> None:
    write_model(tmp_path, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    with Server([tmp_path]) as server:
        found = walk(server.model("add_sub"))
        http = walk_over_http(server, "add_sub")
    assert found.sent[0] == "server/api/model.py Model.__call__"
    assert len(found.sent) <= DEEPEST, "\n".join(found.sent)
    assert "HttpConnection.data_received" in http.sent[1]
    assert len(http.sent) <= DEEPEST_OVER_HTTP, "\n".join(http.sent)
    names = [name.rpartition(".")[2] for name in found.sent]
    assert names.count("execute") == 1
    assert str(found).startswith(f"a request in the kernel: {len(found.sent)} frames deep")
