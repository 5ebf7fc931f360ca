"""Run as a program: execute notebooks from top to bottom; their stored outputs are still true.

The documentation shows notebooks as they are stored. Here each is run, and the words that it prints
must be the stored ones. Numbers may differ, since some are times and some depend on the processor;
so may cells with the tag "varies". The notice that code is being compiled depends on what ran
before, and is left out. ``--write`` stores the new outputs instead.
"""

import re
import sys
import time

import nbformat
from nbclient import NotebookClient

NOTICE = re.compile(r"^fastsksd: compiling|\d+ functions, \d+ s")
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")


def words(cell):
    """Text that a cell printed or returned, without its numbers and line breaks."""
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.get("outputs", [])
    ]
    return " ".join(NUMBER.sub("#", " ".join(texts)).split())


def tidy(notebook):
    """Join what a cell printed in pieces, and leave out times of execution."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        joined = []
        for output in cell.get("outputs", []):
            text = output.get("text", "")
            if NOTICE.search(text) or (output.get("name") == "stderr" and not text.strip()):
                continue
            if (
                joined
                and output.output_type == joined[-1].output_type == "stream"
                and output.name == joined[-1].name
            ):
                joined[-1].text += output.text
            else:
                joined.append(output)
        if "outputs" in cell:
            cell.outputs = joined


def check(path, write):
    """Execute one notebook; returns what is not as it was stored."""
    stored, notebook = (nbformat.read(path, as_version=4) for _ in range(2))
    start = time.perf_counter()
    NotebookClient(notebook, timeout=120).execute()
    tidy(notebook)
    print(f"{path}: ran to the end in {time.perf_counter() - start:.0f} s")
    if write:
        notebook.metadata = stored.metadata
        nbformat.write(notebook, path)
        return []
    return [
        f"{path}, cell {k}: stored\n  {words(old)}\nbut now\n  {words(new)}"
        for k, (old, new) in enumerate(zip(stored.cells, notebook.cells, strict=True))
        if "varies" not in old.metadata.get("tags", []) and words(old) != words(new)
    ]


if __name__ == "__main__":
    write = "--write" in sys.argv
    paths = [path for path in sys.argv[1:] if path != "--write"]
    faults = [fault for path in paths for fault in check(path, write)]
    print(*faults, sep="\n")
    sys.exit(bool(faults))
