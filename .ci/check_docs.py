"""Run as a program: links of the documentation lead somewhere, and the README shows real output.

``check_docs.py SITE`` checks the relative links of all Markdown files and the files they name, the
links inside the site built in the folder SITE, and the output printed in the README.
``check_docs.py --write`` puts the present output into the README, the table of the paper's
benchmark from the rows in ``notebooks/paper``, and tables of `how_well_it_works` from those in
``notebooks/studies``.
"""

import contextlib
import io
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fastsksd.experiments.pages import short_table
from fastsksd.experiments.peer_tables import filled

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "notebooks").glob("*.md")),
    *sorted((ROOT / "notebooks" / "paper").glob("*.md")),
]
FOLDERS = [ROOT / "fastsksd", *(ROOT / "fastsksd").glob("*/")]
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"`([\w./]+(?:\.py|/))`")
TEST = re.compile(r"`([\w./]+\.py)::(\w+)`")
EXAMPLE = re.compile(r"<!-- python -->\n```python\n(.*?)```\n", re.S)
NUMBER = re.compile(r"\d+\.?\d*")
OUTPUT = re.compile(r"(<!-- output -->\n```text\n)(.*?)(```\n)", re.S)
PAPER = re.compile(r"(<!-- paper -->\n)(.*?)(<!-- end -->\n)", re.S)


def markdown_faults(page):
    """Relative links of a Markdown file that lead nowhere."""
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        url = urlsplit(link)
        if url.scheme:
            continue
        target = page.parent / unquote(url.path) if url.path else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: {link} does not exist"
        elif url.fragment and url.fragment not in headings(target):
            yield f"{page.relative_to(ROOT)}: {link} names no heading"


def file_faults(page):
    """Modules and folders that a Markdown file names in code and that do not exist."""
    for name in FILE.findall(FENCE.sub("", page.read_text())):
        if not any((folder / name).exists() for folder in (ROOT, *FOLDERS)):
            yield f"{page.relative_to(ROOT)}: there is no `{name}`"


def test_faults(page):
    """Tests that a Markdown file names, file and function, and that are not there."""
    for path, name in TEST.findall(page.read_text()):
        file = ROOT / path
        if not file.exists() or f"\ndef {name}(" not in file.read_text():
            yield f"{page.relative_to(ROOT)}: there is no test `{path}::{name}`"


def headings(page):
    """Anchors of the headings of a Markdown file, as code hosts and MyST make them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


class Anchors(HTMLParser):
    """Links and anchors of an HTML page."""

    def __init__(self, page):
        super().__init__()
        self.links, self.names = [], {"", "top"}
        self.feed(page.read_text())

    def handle_starttag(self, tag, attrs):
        """Collect what an element points to and what it is called."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.names.add(value)


def site_faults(site):
    """Links inside a built site that lead nowhere, and how many were looked at."""
    pages = {page.resolve(): Anchors(page) for page in site.resolve().rglob("*.html")}
    faults, count = [], 0
    for page, anchors in pages.items():
        for link in anchors.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            count += 1
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            known = pages[target].names if target in pages else {""}
            if not target.exists() or unquote(url.fragment) not in known:
                faults.append(f"{page.relative_to(site.resolve())}: {link} leads nowhere")
    return faults, count


def printed(readme):
    """What the example of the README prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        exec(EXAMPLE.search(readme).group(1), {})
    return text.getvalue()


def alike(old, new):
    """Whether two outputs have the same words, and numbers within 1%, as processors round."""
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=False)
    return NUMBER.sub("#", old) == NUMBER.sub("#", new) and all(
        math.isclose(float(a), float(b), rel_tol=0.01) for a, b in pairs
    )


def main(arguments):
    """Check everything, or with --write renew the README."""
    path = ROOT / "README.md"
    readme = path.read_text()
    output = printed(readme)
    if "--write" in arguments:
        table = short_table(ROOT / "notebooks" / "paper") + "\n"
        for pattern, content in ((OUTPUT, output), (PAPER, table)):
            readme = pattern.sub(lambda found, new=content: found[1] + new + found[3], readme)
        path.write_text(readme)
        page = ROOT / "notebooks" / "how_well_it_works.md"
        page.write_text(filled(page.read_text(), ROOT / "notebooks" / "studies"))
        return []
    faults = [
        fault
        for page in PAGES
        for fault in (*markdown_faults(page), *file_faults(page), *test_faults(page))
    ]
    broken, count = site_faults(Path(arguments[0]))
    print(f"{len(PAGES)} Markdown files, {count} links of the site")
    if count < 1000:
        faults.append(f"{arguments[0]} holds no site")
    if not alike(OUTPUT.search(readme)[2], output):
        faults.append("README.md: the example prints something else; run check_docs.py --write")
    return faults + broken


if __name__ == "__main__":
    faults = main(sys.argv[1:])
    print(*faults, sep="\n")
    sys.exit(bool(faults))
