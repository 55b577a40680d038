"""The port of OpenAI's API among those of a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tritonlab import Server
from tritonlab.core.status import InvalidArgumentError
from tritonlab.frontends.cli.server_options import read_endpoint_options, read_options
from tritonlab.frontends.endpoints import EndpointOptions, Endpoints
from tritonlab.frontends.shared.access import AccessRules


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("empty"), model_control_mode="explicit") as server:
        yield server


def test_it_opens_with_the_others_and_takes_their_token(server: Server) -> None:
    import openai

    options = EndpointOptions(
        grpc=False, http_port=0, metrics_port=0, tool_ports={"openai": 0}, access=AccessRules(token="secret")
    )
    with Endpoints.from_server(server, options) as endpoints:
        assert "OpenAI   http://127.0.0.1:" in repr(endpoints)
        assert endpoints.to_dict()["tools"] == {"OpenAI": endpoints.places["OpenAI"]}
        found = endpoints.tools["openai"]
        assert "secret" not in repr(found)
        with openai.OpenAI(**found, max_retries=0) as client:
            assert list(client.models.list()) == []
    assert endpoints.tools == {}


def test_a_port_that_no_tool_has_is_refused(server: Server) -> None:
    with pytest.raises(InvalidArgumentError, match="no tool has a port 'other'; there are openai"):
        Endpoints.from_server(server, EndpointOptions(tool_ports={"other": 0}))


def test_the_command_lines_have_it() -> None:
    assert read_options(["--model-repository", "x"]).endpoints.tool_ports == {}
    assert read_options(["--model-repository", "x", "--openai-port", "9001"]).endpoints.tool_ports == {"openai": 9001}
    assert read_endpoint_options(["--openai"], AccessRules()).tool_ports == {"openai": 9000}
    assert read_endpoint_options(["--openai-port=0"], AccessRules()).tool_ports == {"openai": 0}
