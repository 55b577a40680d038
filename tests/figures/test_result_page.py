"""The page of a verdict: one file, texts escaped, a frame for each tone."""

from __future__ import annotations

import pytest

from tritonlab.figures.result_page import Tone, result_page, verdict_banner


@pytest.mark.parametrize(("tone", "mark"), [("good", "✓"), ("bad", "✗"), ("open", "?")])
def test_a_banner_has_the_mark_of_its_tone_and_texts_as_they_are(tone: Tone, mark: str) -> None:
    banner = verdict_banner(tone, "Proved <on> 2.51", "1 model: `a<b>` is equal")
    assert banner.startswith(f"<div class='verdict {tone}'><strong>{mark} Proved &lt;on&gt; 2.51</strong>")
    assert "<code>a&lt;b&gt;</code>" in banner


def test_a_page_needs_no_other_file() -> None:
    page = result_page("a & b", "24.10, <today>", "<p>all of it</p>")
    assert "<title>a &amp; b</title>" in page
    assert "<h1>a &amp; b</h1><p>24.10, &lt;today&gt;</p><p>all of it</p>" in page
    assert "src=" not in page and "href=" not in page and "prefers-color-scheme: dark" in page
