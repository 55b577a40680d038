"""`%triton serve` in JupyterLab: the token is shown by a button, and is not in the file that is saved."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.timeout(300)


def test_the_token_is_visible_and_not_saved(lab: Any) -> None:
    serve = "endpoints = %triton serve --http-port 0 --allow-grpc=false --metrics-port 0"
    write_token = "import pathlib; pathlib.Path('token').write_text(endpoints.headers['authorization'])"
    lab.jupyter.write("token.ipynb", ["%load_ext tritonlab", serve, write_token])
    lab.open("token.ipynb")
    lab.run(0)
    output = lab.run(1)
    lab.run(2)
    authorization = (lab.jupyter.notebooks / "token").read_text()
    token = output.locator(".tl-live .tl-token")
    expect(token).to_have_text("")
    output.get_by_role("button", name="Show token").click()
    lab.wait_text(token, f"Authorization: {authorization}")
    expect(output.get_by_role("button", name="Copy")).to_be_visible()
    lab.save()
    saved = (lab.jupyter.notebooks / "token.ipynb").read_text()
    assert "tl-static" in saved and authorization.split()[1] not in saved
    output.get_by_role("button", name="Hide token").click()
    expect(token).to_have_text("")
