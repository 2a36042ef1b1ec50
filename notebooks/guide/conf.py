"""Settings of the documentation's site; `build.py` brings its sources together."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import plotly
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

GUIDE = Path(os.environ["WORKBENCH_GUIDE"])
BUILD = Path(os.environ["WORKBENCH_BUILD"])
ROOT = GUIDE.parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, whatever is installed
os.environ["PYTHONPATH"] = str(ROOT)  # in the kernels too
os.environ["IPYTHONDIR"] = str(BUILD / "ipython")  # where `kernel.py` starts them
os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"

sys.path.insert(0, str(GUIDE))
from lite import list_tutorials

import workbench

project = "Workbench"
author = "Workbench contributors"
copyright = "Workbench contributors, BSD-3-Clause"
release = version = workbench.__version__
extensions = [
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
]
root_doc = "guide/index"
# The first is that of the pages which autosummary writes.
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
templates_path = [str(GUIDE / "_templates")]

# Docstrings

autosummary_generate = True
# On some systems Function.html and function.html are one file.
autosummary_filename_map = {
    f"workbench.{name}": f"workbench.{name}-class"
    for name in ("Function", "Op", "Session", "Shared", "Tensor")
}
autodoc_typehints = "none"  # the signature and the section Parameters say them
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "py:obj"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

# Pages and tutorials, which run

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_excludepatterns = ["*.ipynb"]  # the outputs that are kept in them
nb_execution_cache_path = str(BUILD / "cache")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # or pages with widgets load scripts from two CDNs
suppress_warnings = ["mystnb.unknown_mime_type"]  # our own data

# The look

html_theme = "pydata_sphinx_theme"
html_title = "Workbench"
html_static_path = [
    str(GUIDE / "_static"),
    str(Path(plotly.__file__).parent / "package_data" / "plotly.min.js"),
    str(ROOT / "workbench" / "session" / "page.html"),
]
html_css_files = ["workbench.css"]
html_js_files = [("readers.js", {"defer": "defer"})]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_nav_level": 1,
    "logo": {"text": "Workbench"},
}
copybutton_exclude = ".linenos, .gp, .go"


def skip_member(
    app: Sphinx, what: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Leave out NumPy's own functions, and what other rooms ask of a session."""
    home = getattr(member, "__module__", None) or ""
    return True if home.split(".")[0] in ("numpy", "scipy") else None


#: Pages with a button, and the notebook that it opens in the reader's browser.
RUN_HERE = {root_doc: "00-five-minutes"}
RUN_HERE |= {one.stem: one.stem for one in list_tutorials()}


def draw_figures(
    app: Sphinx, page: str, template: str, context: dict[str, str], tree: object
) -> None:
    """Load Plotly where there are figures, from the site itself; live graphs too."""
    body = context.get("body", "")
    scripts = ["plotly.min.js", "plots.js"] if "plotly-figure" in body else []
    scripts += ["pictures.js"] if "workbench-picture" in body else []
    for script in scripts:
        app.add_js_file(script, loading_method="defer")
    if page in RUN_HERE and os.environ.get("WORKBENCH_LITE"):
        place = "../" * page.count("/") + "lite/lab/index.html"
        link = f'<a class="run-it-here" href="{place}?path={RUN_HERE[page]}.ipynb">'
        button = f"{link}Run it here</a>"
        context["body"] = body.replace("</h1>", f"</h1>\n<p>{button}</p>", 1)


class LinkNames(SphinxPostTransform):
    """Make a link of each `wb.name` in the text of pages and tutorials."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: object) -> None:
        """Put a reference in the place of each literal that is a public name."""
        if self.env.docname.startswith("api/"):
            return
        objects = self.env.get_domain("py").objects  # type: ignore[attr-defined]
        for literal in list(self.document.findall(nodes.literal)):
            text = literal.astext()
            if not text.startswith("wb.") or isinstance(
                literal.parent, nodes.reference
            ):
                continue
            target = "workbench." + text[3:].partition("(")[0]
            if target in objects:
                entry = objects[target]
                uri = self.app.builder.get_relative_uri(self.env.docname, entry.docname)
                link = nodes.reference(
                    "", "", internal=True, refuri=f"{uri}#{entry.node_id}"
                )
                literal.replace_self(link)
                link += literal


def setup(app: Sphinx) -> None:
    """Add what is our own."""
    app.connect("autodoc-skip-member", skip_member)
    app.connect("html-page-context", draw_figures)
    app.add_post_transform(LinkNames)
