"""Checkpoints: one file, replaced as a whole, so that a kill leaves the old or the new one."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._validate import check_checkpoint


def save_checkpoint(
    path: str | os.PathLike[str], settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write settings (plain data) and arrays to `path`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    contents: dict[str, Any] = {"settings": np.array(json.dumps(settings)), **arrays}
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(
    path: str | os.PathLike[str], settings: Mapping[str, Any]
) -> dict[str, np.ndarray] | None:
    """The arrays at `path`, or None if there is no file; an error if its settings are others."""
    path = check_checkpoint(path)
    if not path.exists():
        return None
    try:
        with np.load(path) as file:
            arrays = dict(file)
        there = json.loads(arrays.pop("settings").item())
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"`checkpoint`: {path} is not a checkpoint of a training run; choose another file."
        ) from error
    here = json.loads(json.dumps(settings))
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if names:
        listing = ", ".join(
            f"{name}: {there.get(name)} there, {here.get(name)} here" for name in names
        )
        raise ValueError(
            f"`checkpoint`: {path} belongs to a run with other settings ({listing}); "
            "choose another file."
        )
    return arrays
