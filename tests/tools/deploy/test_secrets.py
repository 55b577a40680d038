from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.tools.deploy.secrets import SecretLine, secret_lines, why_secret


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *((name, True) for name in ("token", "1/token.txt", "HF_TOKEN", "hf_token.txt", "_netrc", ".netrc", "api_key")),
        *((name, False) for name in ("tokens.txt", "tokenizer.json", "hf_tokenizer.json", "1/bos_token.txt", "keys")),
    ],
)
def test_a_name_shows_a_secret_and_a_vocabulary_is_none(tmp_path: Path, name: str, is_secret: bool) -> None:
    (tmp_path / "file").write_text("a b c")
    assert bool(why_secret(name, tmp_path / "file")) is is_secret


def test_what_is_no_text_or_large_is_not_read(tmp_path: Path) -> None:
    key = b"-----BEGIN PRIVATE KEY-----"
    (tmp_path / "weights").write_bytes(b"\0" + key)
    (tmp_path / "table").write_bytes(b"x" * 300_000 + key)
    assert [secret_lines(tmp_path / name) for name in ("weights", "table", "gone")] == [(), (), ()]


def test_the_scanner_finds_keys_of_a_known_form(tmp_path: Path) -> None:
    pytest.importorskip("detect_secrets")
    file = tmp_path / "settings.json"
    file.write_text('{"rate": 1,\n "key": "AKIAIOSFODNN7QWERTYU",\n "hash": "9f86d081884c7d659a2feaa0c55ad015"}')
    assert secret_lines(file) == [SecretLine("AWS Access Key", 2)]
    assert why_secret("settings.json", file) == "AWS Access Key in line 2"
    assert why_secret("model.py", file) == ""
