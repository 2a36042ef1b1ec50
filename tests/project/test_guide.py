"""The guide: its links, its names, and the site that is built of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

import workbench as wb
from tests.project import environments
from tests.project.supported import OWN
from workbench import distributed, errors, gradient, models, random
from workbench.jupyter.cell import PARTS
from workbench.overrides import expression

ROOT = environments.ROOT
NOTEBOOKS = ROOT / "notebooks"
GUIDE = NOTEBOOKS / "guide"
TUTORIALS = sorted(NOTEBOOKS.glob("*.ipynb"))
PAGES = sorted(GUIDE.rglob("*.md"))
REFERENCE = GUIDE / "reference"
#: What a page may be linked to by, besides files.
ELSEWHERE = ("http://", "https://", "mailto:")


def text_of(page: Path) -> str:
    """Return the Markdown of a page, or of a notebook."""
    text = page.read_text("utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
    )


def without_code(text: str) -> str:
    text = re.sub(r"^(`{3,}).*?^\1`*$", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "code", text)


def links_of(page: Path) -> Iterator[str]:
    for found in re.finditer(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        if not found[1].startswith(ELSEWHERE):
            yield found[1]


def anchors_of(page: Path) -> set[str]:
    """Return what a forge and the site make of its headings."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {word.strip().replace(" ", "-") for word in words}


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *PAGES, *TUTORIALS],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} is not a file"
        if anchor:
            assert anchor in anchors_of(target), f"{link} is not a heading"


def listed(page: Path) -> Iterator[Path]:
    """The pages in the toctrees of a page."""
    for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", text_of(page), re.M | re.S):
        for line in tree.splitlines():
            if line and not line.startswith(":"):
                entry = page.parent / line
                found = [entry.with_name(entry.name + end) for end in (".md", ".ipynb")]
                yield next(path.resolve() for path in found if path.exists())


def test_every_page_is_in_one_toctree() -> None:
    pages = [page for each in PAGES for page in listed(each)]
    assert sorted(pages) == sorted({*PAGES, *TUTORIALS} - {GUIDE / "index.md"})


def documented() -> Iterator[str]:
    """The names that have a page of their own, as the reference lists them."""
    block = r"^```\{eval-rst\}\n(.*?)^```"
    for page in sorted(REFERENCE.glob("*.md")):
        module = ""
        for directives in re.findall(block, text_of(page), re.M | re.S):
            module = (re.findall(r"currentmodule:: (\S+)", directives) or [module])[0]
            for name in re.findall(r"^   (\w[\w.]*)$", directives, re.M):
                yield f"{module}.{name}"


#: What users get and read, and do not make by name.
GIVEN = {
    "workbench.checks.doctor.finding.Edit",
    "workbench.checks.doctor.finding.Finding",
    "workbench.checks.doctor.finding.Findings",
    "workbench.checks.doctor.finding.Fix",
    "workbench.overrides.node.Node",
}


def test_every_public_name_has_a_page() -> None:
    modules = (
        wb.rules, wb.plots, wb.patterns, wb.optimize, gradient, random, errors,
        distributed, models,
    )  # fmt: skip
    public = {f"workbench.{name}" for name in wb.__all__}
    public -= {"workbench.rules", "workbench.plots", "workbench.patterns"}
    public -= {"workbench.models", "workbench.optimize"}
    for module in modules:
        public |= {f"{module.__name__}.{name}" for name in module.__all__}
    # The toolbox has those of the library.
    public -= {f"workbench.gradient.{name}" for name in errors.__all__}
    names = list(documented())
    assert len(names) == len(set(names))
    others = {f"workbench.scipy.{module}" for module in OWN.split()}
    assert set(names) == public | others | GIVEN | {"workbench.numpy"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 160


# What pages list of the code


def first_cells(page: str) -> set[str]:
    """Return what stands first in the rows of a page's tables."""
    return set(re.findall(r"^\| `([^`]+)` \|", text_of(REFERENCE / page), re.M))


def test_every_option_of_a_cell_is_listed() -> None:
    options = {name.split()[0] for name in first_cells("cell.md")}
    assert options == {"OUTPUT", "--wrt", "--name", "--show", "--seed", "--backend"}
    text = text_of(REFERENCE / "cell.md")
    assert all(f"`{part}`" in text for part in PARTS)


def test_every_rule_is_in_the_table() -> None:
    found = set(re.findall(r"`(\w+)\([^`]*\)`", text_of(REFERENCE / "rules.md")))
    assert set(wb.rules.__all__) <= found


def branches(text: str) -> list[str]:
    """Return the lines of a tree of errors, without what each means."""
    return re.findall(r"^[│ ├└─]*\w+Error(?: +\(\w+\))?", text, re.M)


def test_the_tree_of_errors_is_that_of_the_module() -> None:
    (tree,) = re.findall(r"```\n(.*?)```", errors.__doc__ or "", re.S)
    assert len(branches(tree)) == len(errors.__all__)
    (shown,) = re.findall(r"```text\n(.*?)```", text_of(REFERENCE / "errors.md"), re.S)
    assert branches(shown) == branches(tree)


def test_the_grammar_is_that_of_the_module() -> None:
    lines = [
        line.strip()
        for line in (expression.__doc__ or "").splitlines()
        if re.match(r" +\w+ +=", line)
    ]
    assert len(lines) >= 6
    text = text_of(REFERENCE / "rules.md")
    assert all(line in text for line in lines)


def test_the_limits_of_formulas_are_told() -> None:
    text = text_of(REFERENCE / "rules.md")
    limits = expression.MOST_CHARACTERS, expression.MOST_NESTING
    assert "{:,} characters and {}\nlevels".format(*limits) in text


# The site

#: What a browser would load from another machine.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"'](?:https?:)?//"
    r"|<link[^>]*\shref=[\"'](?:https?:)?//"
)
LOADED_BY_STYLE = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")


#: What a page holds as data, and what of the rest leads somewhere, or is led to.
SCRIPT = re.compile(r"<script\b[^>]*>.*?</script>", re.S)
LINK = re.compile(r"""\s(?:href|src)=(?:"([^"]*)"|'([^']*)')""")
NAME = re.compile(r"""\s(?:id|name)=(?:"([^"]*)"|'([^']*)')""")


def find_broken_links(site: Path) -> Iterator[str]:
    """Yield each link of a page to a file or a place that is not in the site."""
    texts = {
        page: SCRIPT.sub("", page.read_text("utf-8"))
        for page in site.rglob("*.html")
        if "_static" not in page.parts  # the theme's templates
    }
    names = {
        page: {unescape(a or b) for a, b in NAME.findall(text)}
        for page, text in texts.items()
    }
    for page, text in texts.items():
        for link in {unescape(a or b) for a, b in LINK.findall(text)}:
            if link.startswith((*ELSEWHERE, "data:", "javascript:")):
                continue
            path, _, anchor = unquote(link).partition("#")
            path = path.partition("?")[0]
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                yield f"{page.relative_to(site)}: {link} is not a file"
            elif anchor and anchor not in names.get(target, {anchor}):
                yield f"{page.relative_to(site)}: {link} is not a place"


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        """<h1 id="here"><a href="#here">a</a><a href='b.html#x?y'>b</a></h1>
        <script>s = '<a href="nowhere.html">'</script><img src="c.png">
        <a href="https://d">d</a><a href="b.html?q=1#y">e</a>"""
    )
    (tmp_path / "b.html").write_text('<p id="x?y">')
    assert sorted(find_broken_links(tmp_path.resolve())) == [
        "a.html: b.html?q=1#y is not a place",
        "a.html: c.png is not a file",
    ]


@pytest.mark.long
@pytest.mark.timeout(1500)  # it waits for cores that others use
def test_the_site_is_built_and_asks_no_other_machine(
    wheel: Path, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    programs = environments.environment(tmp_path / "env", f"{wheel}[docs]")
    checkout = environments.copy_checkout(tmp_path / "checkout")
    # What the build of the page leaves in a checkout: a tutorial writes an HTML file.
    page = Path("workbench/session/page.html")
    shutil.copy(environments.ROOT / page, checkout / page)
    settings = {
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        # No way out: a port that nobody listens on.
        **dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"),
    }
    build = (programs / "python", "notebooks/guide/build.py")
    told = environments.run(*build, cwd=checkout, limit=1200, **settings)
    measured("documentation: " + told.splitlines()[-1].rpartition(": ")[2])
    site = checkout / "build" / "docs" / "html"
    for name in documented():
        pages = [site / "api" / f"{name}{end}.html" for end in ("", "-class")]
        assert any(page.exists() for page in pages), name
    for tutorial in TUTORIALS:
        text = (site / f"{tutorial.stem}.html").read_text("utf-8")
        # A graph, or a figure of plotly.
        assert "workbench-picture" in text or "plotly-figure" in text, tutorial
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text("utf-8")), page
    for style in site.rglob("*.css"):
        assert not LOADED_BY_STYLE.search(style.read_text("utf-8")), style
    assert not [*find_broken_links(site.resolve())]
    # The journeys in a browser, which come next, look at it: it is built once.
    kept = environments.ROOT / "build" / "docs" / "html"
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(site, kept)
