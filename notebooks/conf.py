"""The API as one page, for Sphinx: ``sphinx-build -b singlehtml notebooks api``."""

project = "fastsksd"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
master_doc = "api"
default_role = "code"
html_theme = "alabaster"
suppress_warnings = ["ref.python"]  # attributes of one name in several classes
