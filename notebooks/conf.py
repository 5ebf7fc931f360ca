"""The documentation as a site: ``sphinx-build -W -n notebooks build/site``."""

import fastsksd

project = "fastsksd"
copyright = "2026, the fastsksd developers"
version = release = fastsksd.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
# `fastsksd reproduce NAME --out notebooks/paper` leaves a report of its own beside the page.
exclude_patterns = ["**.ipynb_checkpoints", "studies", "paper/[!i]*.md", "paper/ica.md"]

# Pages in Markdown. Headings can be linked to, as on most code hosts.
myst_heading_anchors = 3

# Notebooks are shown as they are stored. `.ci/check_notebook.py` runs them and compares.
nb_execution_mode = "off"
nb_merge_streams = True

# Docstrings. Types stand in the docstrings, so signatures stay short.
default_role = "code"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False
python_maximum_signature_line_length = 88
smartquotes = False  # quotes are code, as in null="wild"

html_theme = "furo"
html_title = f"fastsksd {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
