from __future__ import annotations

from typing import Any


def test_the_commands_of_a_dynamo_fleet_are_printed_and_no_port_is_opened(notebook: Any) -> None:
    text = notebook.run("%triton serve --dynamo").text
    assert "python -m dynamo.frontend --kserve-grpc-server" in text and "DYN_FILE_KV" in text
    assert "tritonlab worker --dynamo --model-repository=" in text
    refused = notebook.run("%triton serve --dynamo --http-port=0").text
    assert refused.strip().endswith("takes no other flag: --http-port=0")
