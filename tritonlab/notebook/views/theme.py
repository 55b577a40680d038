"""The one style sheet, `notebook/static/theme.css`, for everything tritonlab draws in a notebook.

Colours are JupyterLab's theme variables, then VS Code's, then plain values, so that the same HTML reads well in light
and dark themes. The tones (good, warn, bad) are mixed with the text colour, because JupyterLab's own are too light on
white.
"""

from __future__ import annotations

from pathlib import Path

#: The style sheet, and the ES modules that `extension/` builds.
STATIC = Path(__file__).resolve().parents[1] / "static"
STYLE = f"<style>\n{(STATIC / 'theme.css').read_text(encoding='utf-8')}</style>"
