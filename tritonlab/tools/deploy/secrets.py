"""Secrets among the files of an export, by their names and by their contents.

The well-known forms of keys in texts are those of detect-secrets, if it is installed (the extra `secrets`); private
keys and tokens of Hugging Face are found without it.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

_OWNERS = ("hf", "huggingface", "github", "gitlab", "api", "access", "auth")
_NAMES = (
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.env", ".env*"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".git-credentials", ".pypirc", "kubeconfig", "kaggle.json"),
    *("*credentials", "*credentials*.json", "*credentials*.csv", "service?account*.json", "password*.txt"),
    *(f"*secret*.{end}" for end in ("json", "yaml", "yml", "toml", "ini", "txt")),
    *(".netrc", "netrc", "_netrc", "token", "token.txt", ".token", "api?key", "api?key.txt"),  # not tokens.txt
    *(f"{owner}_token{end}" for owner in _OWNERS for end in ("", ".*")),
)
#: Larger files are weights or tables, and no file of keys.
_LARGEST = 256_000
#: The code and the config of a model cannot be left out: what is in them is named only.
_SOURCES = (".py", ".pbtxt")
_CONTENTS = {
    "private key": re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"),
    "Hugging Face token": re.compile(rb"\bhf_[A-Za-z0-9]{30,}\b"),
}
#: Detectors of detect-secrets for keys of a known form, without those that guess.
_DETECTORS = (
    *(
        "AWSKeyDetector",
        "ArtifactoryDetector",
        "AzureStorageKeyDetector",
        "CloudantDetector",
        "DiscordBotTokenDetector",
    ),
    *("GitHubTokenDetector", "GitLabTokenDetector", "IbmCloudIamDetector", "IbmCosHmacDetector", "JwtTokenDetector"),
    *("MailchimpDetector", "NpmDetector", "OpenAIDetector", "PrivateKeyDetector", "PypiTokenDetector"),
    *("SendGridDetector", "SlackDetector", "SoftlayerDetector", "SquareOAuthDetector", "StripeDetector"),
    *("TelegramBotTokenDetector", "TwilioKeyDetector"),
)


class SecretLine(NamedTuple):
    """A place in a file that looks like a secret. `line` counts from 1."""

    kind: str
    line: int


def why_secret(file: str, path: Path) -> str:
    """Return why a file of a model, `file` by its path there, is taken for a secret: its name, or a key in it. Empty
    for other files, and for the model's code and config, which `secret_sentences` reads."""
    if any(fnmatchcase(file.rpartition("/")[2].lower(), pattern) for pattern in _NAMES):
        return "its name"
    if file.endswith(_SOURCES):
        return ""
    found = secret_lines(path)
    return f"{found[0].kind} in line {found[0].line}" if found else ""


def secret_lines(path: Path) -> Sequence[SecretLine]:
    """Return the lines of a text file that look like secrets, none for large files."""
    try:
        if path.stat().st_size > _LARGEST:
            return ()
        content = path.read_bytes()
    except OSError:
        return ()
    if b"\0" in content:
        return ()
    # both find private keys: one place is named once, and in our words with the scanner and without
    found = {each.line: each for each in (*_scanned(str(path)), *_own(content))}
    return [found[line] for line in sorted(found)]


def secret_sentences(root: Path, files: Sequence[str], environment: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield sentences about secrets that are exported, each with what to do and its `<file>:<line>`: files whose names
    are requested, and keys in the code and the config. `environment`: the directory of an environment, whose libraries
    include certificates."""
    own = [file for file in files if not (environment and file.startswith(environment + "/"))]
    named = [file for file in own if not file.endswith(_SOURCES) and why_secret(file, root / file)]
    if named:
        more = f" and {len(named) - 1} more" if len(named) > 1 else ""
        which = ("like secrets and are", "them") if more else ("like a secret and is", "it")
        yield (
            f"{named[0]}{more} look{'s' * (not more)} {which[0]} exported",
            f"take {which[1]} out of the model's directory, and mount {which[1]} where the model runs",
            str(root / named[0]),
        )
    for file in own:
        for found in secret_lines(root / file)[:1] if file.endswith(_SOURCES) else ():
            yield (
                f"line {found.line} of {file} has what looks like a secret ({found.kind}), and is exported",
                "read it from an environment variable, which the deployment takes from its secrets",
                f"{root / file}:{found.line}",
            )


def _own(content: bytes) -> Iterator[SecretLine]:
    for kind, pattern in _CONTENTS.items():
        if found := pattern.search(content):
            yield SecretLine(kind, content.count(b"\n", 0, found.start()) + 1)


@functools.cache
def _has_scanner() -> bool:
    return importlib.util.find_spec("detect_secrets") is not None


def _scanned(path: str) -> Iterator[SecretLine]:
    if not _has_scanner():
        return
    from detect_secrets.core.secrets_collection import SecretsCollection  # an extra, only for an export
    from detect_secrets.settings import transient_settings

    found = SecretsCollection()
    with transient_settings({"plugins_used": [{"name": name} for name in _DETECTORS]}):
        found.scan_file(path)
    for _, each in found:
        yield SecretLine(each.type, each.line_number)
