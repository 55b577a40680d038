# The documentation site: Sphinx, MyST Markdown and the PyData theme, as NumPy, pandas and the projects of Jupyter build
# theirs: it reads notebooks and docstrings, and its search works without a server. Zensical 0.1.3, the successor of
# Material for MkDocs, reads no notebooks yet; Jupyter Book 2 makes no reference from docstrings (November 2026).
"""The configuration of Sphinx; `make docs` builds the site into build/docs."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_extensions"))

from generated_reference import without_what_they_need  # noqa: E402

import tritonlab  # noqa: E402  the path above comes first

# A build makes some million nodes, keeps them to its end, and has the garbage collector walk through them again and
# again: a fifth of its processor time. Without it, it takes 150 MB more.
gc.disable()

project = "tritonlab"
author = "tritonlab contributors"
copyright = f"2026, {author}"
release = version = tritonlab.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "generated_reference",  # listens to autodoc
    "verdict_pictures",
    "sphinx_copybutton",
    "sphinx_design",
]
# The line of a cell magic is not Python, and a `?` in it ends the highlighting of the strict kind. A type of which
# pb_utils and tritonserver have one too, such as Tensor, is the page's own, else that of tritonlab, which comes first.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]
exclude_patterns = ["_extensions", "_static", "jupyter_execute", "reference/matrix.md"]
html_theme = "pydata_sphinx_theme"
html_title = f"tritonlab {release}"
html_static_path = ["_static", str(Path(tritonlab.__file__).parent / "notebook" / "static" / "theme.css")]
html_css_files = ["theme.css", "site.css"]
html_logo = "_static/trident.svg"
html_favicon = "_static/trident.svg"
html_search_scorer = str(HERE / "_extensions" / "search_scorer.js")
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "tritonlab"},
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

# Docstrings write code as Markdown does, between single backticks.
default_role = "code"
autodoc_member_order = "bysource"
add_module_names = False
autodoc_mock_imports = ["ray"]
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True

# The notebooks are executed by `make docs`; a quick build, such as that of the tests, shows the outputs they store.
nb_execution_mode = os.environ.get("TRITONLAB_DOCS_EXECUTE", "off")
nb_execution_cache_path = str(HERE.parent / "build" / "docs-executed")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_excludepatterns = without_what_they_need()
if nb_execution_mode != "off":  # ipykernel 7.4 warns at each start that it listens on loopback
    profile = HERE.parent / "build" / "docs-ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
    os.environ["IPYTHONDIR"] = str(profile.parent)
nb_merge_streams = True
# Views are shown in their static form: a page loads nothing from elsewhere, and there is no kernel to move them.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 4
