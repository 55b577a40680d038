"""The name of a model in the path of a request."""

from __future__ import annotations

from tritonlab.exchanges.http_document import model_path


def test_names_are_quoted_as_tritonclient_quotes_them() -> None:
    assert model_path("a_b", "2") == "/v2/models/a_b/versions/2"
    assert model_path("modèle b", "") == "/v2/models/mod%C3%A8le%20b"
