"""`tritonlab serve --models-page` in a browser that reaches no other host: token, example, answer, either theme."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.models import ADD_SUB
from tests.serving import write_model
from tritonlab.frontends.cli.server_options import read_options
from tritonlab.frontends.endpoints import Endpoints

from .conftest import SCREENSHOTS

pytestmark = pytest.mark.timeout(300)

CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base = tmp_path_factory.mktemp("served")
    write_model(base / "models", "add_sub", ADD_SUB, CONFIG)
    token = base / "token"
    token.write_text("s3cret")
    token.chmod(0o600)
    ports = ["--http-port=0", "--allow-grpc=false", "--allow-metrics=false"]
    options = read_options(
        [f"--model-repository={base / 'models'}", "--models-page", f"--token-file={token}", *ports]
    )
    core = options.make_server()
    try:
        core.load_startup_models()
        with Endpoints(core, options.endpoints) as endpoints:
            yield f"http://{endpoints.http}/"
    finally:
        core.stop()


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 1600)])
def test_its_own_example_is_answered(chromium: Any, url: str, theme: str, width: int) -> None:
    page = chromium.new_page(color_scheme=theme, viewport={"width": width, "height": 900})
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("requestfailed", lambda request: failures.append(request.url))
    page.goto(url)
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not right")
    page.get_by_label("Token").fill("s3cret")
    page.keyboard.press("Enter")
    page.locator("rapi-doc .nav-bar-path").filter(has_text="Send a request").click()
    documents = page.locator("rapi-doc")
    expect(documents.locator("textarea").first).to_have_value(re.compile(r'"INPUT0"'))
    documents.get_by_text("TRY", exact=True).click()
    answer = documents.locator(".request-panel pre, api-request pre").filter(has_text="model_version")
    expect(answer.first).to_contain_text("OUTPUT0")
    page.screenshot(path=SCREENSHOTS / f"models-page-{theme}-{width}.png")
    assert failures == []
    page.close()

