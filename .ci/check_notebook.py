"""Run as a program: execute a notebook from top to bottom."""

import sys
import time

import nbformat
from nbclient import NotebookClient

path = sys.argv[1]
start = time.perf_counter()
NotebookClient(nbformat.read(path, as_version=4), timeout=120).execute()
print(f"{path}: ran to the end in {time.perf_counter() - start:.0f} s")
