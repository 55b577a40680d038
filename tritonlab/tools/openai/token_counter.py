"""The number of tokens of a text: counted by the tokenizer of a model, or as its config says.

The parameter `openai.tokens` of a config is `characters`, `words` or `bytes`, or the path of a `tokenizer.json`,
relative to the version directory or to the model's. Without it a `tokenizer.json` in one of them is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .openai_errors import OpenAIError

#: Returns the number of tokens of a text.
Count = Callable[[str], int]

FILE = "tokenizer.json"
_SIMPLE: dict[str, Count] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "bytes": lambda text: len(text.encode()),
}


def find_counter(directories: Sequence[Path], chosen: str = "") -> Count | None:
    """Return the function that counts the tokens of a model, None if it is not known. chosen: `openai.tokens` of its
    config. Raises OpenAIError for a file that is missing or no tokenizer, and without the package `tokenizers`."""
    if chosen in _SIMPLE:
        return _SIMPLE[chosen]
    files = [directory / (chosen or FILE) for directory in directories]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        if chosen:
            raise OpenAIError(f"the model has no file '{chosen}', which 'openai.tokens' of its config names", 500)
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        if chosen:
            raise OpenAIError(f"counting tokens with {file} needs the package: pip install tokenizers", 500) from None
        return None
    try:
        tokenizer: Any = Tokenizer.from_file(str(file))
    except Exception as error:  # the class of its errors is Exception
        raise OpenAIError(f"{file} is no tokenizer: {error}", 500) from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
