"""Checkpoints: one file, replaced as a whole, so that a kill leaves either the old one or the new one."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np


def save_checkpoint(path, settings, arrays):
    """Write settings (plain data) and arrays to `path`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(file, settings=np.array(json.dumps(settings)), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(path, settings):
    """The arrays at `path`, or None when nothing is there; an error when they belong to other settings."""
    path = Path(path)
    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            arrays = dict(file)
        there = json.loads(arrays.pop("settings").item())
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"`checkpoint`: {path} is no checkpoint of a training run; choose another file."
        ) from error
    here = json.loads(json.dumps(settings))
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if names:
        listing = ", ".join(
            f"{name}: {there.get(name)} there, {here.get(name)} here" for name in names
        )
        raise ValueError(
            f"`checkpoint`: {path} belongs to a run of other settings ({listing}); choose another file."
        )
    return arrays
