"""How Sphinx makes the manual; ``buildchain/manual/site.py`` says where from, and to where."""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "MetalK8s"
author = "MetalK8s"
copyright = ""  # noqa: A001 - Sphinx names it; each page says it by its licence
extensions = ["myst_parser"]
root_doc = "index"
nitpicky = True

# How deep headings can be linked to: the anchors of pages as they are read elsewhere.
myst_heading_anchors = 6
# What stands in < > is a placeholder in our pages, never HTML.
myst_disable_syntax = ["html_block", "html_inline"]
highlight_language = "text"
pygments_style = "sphinx"

# The plainest theme there is, and one stylesheet of ours: no script, font or picture of others
# but what searches.
html_theme = "basic"
html_static_path = ["static"]
html_css_files = ["manual.css"]
html_short_title = "Manual"
html_sidebars = {"**": ["searchbox.html", "globaltoc.html"]}
# A page opened from a medium (file://) must not ask for another one behind the reader's back.
html_show_search_summary = False
html_use_index = False
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_permalinks_icon = "#"
html_domain_indices = False
smartquotes = False


def setup(app: Sphinx) -> None:
    """Show as they are what Pygments has no lexer for."""
    app.add_lexer("nft", TextLexer)
