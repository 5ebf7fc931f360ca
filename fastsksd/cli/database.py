"""Draws of a posterior of a local posterior database, for ``fastsksd test --posteriordb``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from ..interop.posteriordb import Posterior, load, variables
from .files import array_source, is_netcdf, open_file
from .sources import FileError, Source, choose_columns, read_all


class Opened(NamedTuple):
    """Draws that were read.

    Attributes
    ----------
    samples, scores : Source
        Unconstrained draws, and their scores.
    chain : (n,) array of int, or None
        The chain of each draw; None for rows of a file that does not say it.
    dropped, divergent : int
        Numbers of draws left out, and of divergent ones that are kept.
    """

    samples: Source
    scores: Source
    chain: np.ndarray | None
    dropped: int
    divergent: int


def open_posterior(
    where: tuple[str, str],
    path: str | None,
    *,
    score: Any = None,
    parameters: str | None = None,
    chains: str | None = None,
    divergences: str = "keep",
    drop: bool = False,
    progress: bool = True,
) -> Opened:
    """Read draws, and compute their scores.

    Parameters
    ----------
    where : pair of str
        The folder of the database, and the name of the posterior.
    path : str or None
        File of constrained draws; None for the reference draws.
    score : callable or model object, optional
        In place of the Stan model; see `fastsksd.interop.posteriordb.Posterior.draws`.
    parameters : str, optional
        Names of parameters to test, separated by commas. All by default.
    chains : str, optional
        Column of the file with the chain of each row.
    divergences : {"keep", "error", "drop"}
        What to do about divergent draws of an .nc file.
    drop : bool
        Whether draws with NaN or infinity are left out.
    progress : bool
        Whether progress is shown.
    """
    posterior = load(*where)
    samples: Any = path
    if path is not None and not is_netcdf(path):
        samples = _rows(path, chains)
    found = posterior.draws(
        samples,
        score=score,
        var_names=None if parameters is None else [one.strip() for one in parameters.split(",")],
        on_divergence=divergences,
        on_nan="drop" if drop else "error",
        progress=progress,
    )
    label = path or reference_name(posterior)
    sources = [
        array_source(label, array)._replace(names=found.names) for array in (found.x, found.score)
    ]
    known = chains is not None or path is None or is_netcdf(path)
    chain = found.chain if known else None
    return Opened(*sources, chain, found.n_dropped, found.n_divergent)


def reference_name(posterior: Posterior) -> str:
    """What stands in place of a file's name."""
    return f"reference draws of {posterior.name}"


def _rows(path: str, chains: str | None) -> dict[str, Array]:
    """Variables (chains, draws, ...) of a file with a row for each draw."""
    source = open_file(path)
    if source.names is None:
        raise FileError(f"{path}: must have a line with the names of parameters, as in Stan")
    (values,) = read_all([source])
    label = None
    if chains is not None:
        (label,) = choose_columns(path, source.names, source.width, chains)
    groups = [np.arange(len(values))]
    if label is not None:
        labels = values[:, label]
        groups = [np.flatnonzero(labels == one) for one in np.unique(labels)]
        lengths = [len(group) for group in groups]
        if len(set(lengths)) > 1:
            raise FileError(
                f"{path}: has chains of {min(lengths)} to {max(lengths)} draws; with --posteriordb "
                "they must be of the same length"
            )
    kept = values[np.array(groups)]
    # What samplers write beside parameters ends or begins like this.
    return variables(
        {
            name: kept[:, :, k]
            for k, name in enumerate(source.names)
            if k != label and not name.endswith("__") and not name.startswith(".")
        }
    )
