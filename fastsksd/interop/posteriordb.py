"""Posteriors of a posterior database on disk: models, data and reference draws.

A database is a folder in the layout of posteriordb. Nothing is downloaded. Below
``posterior_database`` it holds

``posteriors/NAME.json``
    The names of model, data and reference draws.
``models/info/MODEL.info.json``, ``models/stan/MODEL.stan``
    The model.
``data/data/DATA.json.zip``
    The data of the model.
``reference_posteriors/draws/draws/REFERENCE.json.zip``
    Reference draws: for each chain, the draws of every parameter.

JSON files may be zipped or not.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Score
from .._validate import ArgumentError, evaluate_score
from ._draws import Block, Draws, OnNan, VarNames, collect, indexed, unconstrained_names
from .arviz import diverging, read, variables_of
from .stan import unconstrained

__all__ = ["Posterior", "load"]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """A posterior of a database; see `load`.

    Attributes
    ----------
    name : str
        Its name.
    folder : Path
        The folder ``posterior_database``.
    info : dict
        What the database says of it: names of the model, the data and the reference draws.
    """

    name: str
    folder: Path
    info: dict[str, Any]

    def data(self) -> dict[str, Any]:
        """Read the data of the model.

        Returns
        -------
        dict
            Values by the names they have in the model.
        """
        return _read_json(self.folder / "data" / "data" / f"{self._named('data_name')}.json")

    @property
    def stan_file(self) -> Path:
        """The file of the model in Stan."""
        model = self._named("model_name")
        info = self.folder / "models" / "info" / f"{model}.info.json"
        code = Path("models") / "stan" / f"{model}.stan"
        if _there(info):
            stan = _read_json(info).get("model_implementations", {}).get("stan")
            if stan is None:
                raise ArgumentError("name", f"is {self.name!r}, whose model is not given in Stan")
            code = Path(stan.get("model_code", code))
        path = self.folder / code
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}, the model of {self.name!r}.")
        return path

    def model(self) -> Any:
        """Compile the model with BridgeStan, with the data of this posterior.

        Returns
        -------
        bridgestan.StanModel
            A model that was compiled before, ``MODEL_model.so`` beside the Stan file and not older
            than it, is loaded as it is.

        Raises
        ------
        ImportError
            If BridgeStan is not installed.
        RuntimeError
            If the model can't be compiled.
        """
        file, data = self.stan_file, json.dumps(self.data())
        try:
            import bridgestan
        except ImportError as error:
            raise ImportError(
                f"the model of {self.name!r} needs BridgeStan: pip install 'fastsksd[stan]'; or "
                "give a score function"
            ) from error
        compiled = file.with_name(f"{file.stem}_model.so")
        if compiled.is_file() and compiled.stat().st_mtime >= file.stat().st_mtime:
            return bridgestan.StanModel(compiled, data, warn=False)
        try:
            return bridgestan.StanModel(file, data)
        except Exception as error:
            raise RuntimeError(
                f"BridgeStan could not compile {file}: {error}. Compile it elsewhere to "
                f"{compiled.name} beside it, or give a score function."
            ) from error

    def reference(self) -> dict[str, np.ndarray]:
        """Read the reference draws.

        Returns
        -------
        dict of str to (chains, draws, ...) array
            Constrained draws of each variable.
        """
        name = self.info.get("reference_posterior_name")
        if not name:
            raise ArgumentError("name", f"is {self.name!r}, which has no reference draws")
        path = self.folder / "reference_posteriors" / "draws" / "draws" / f"{name}.json"
        chains = _read_json(path)
        try:
            names = list(chains[0])
            columns = {
                column: np.array([chain[column] for chain in chains], dtype=float)
                for column in names
            }
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: must hold a list of chains, each with lists of draws by the names of "
                "parameters, all of the same length."
            ) from error
        return variables(columns)

    def draws(
        self,
        samples: Any = None,
        *,
        model: Any = None,
        score: Score | None = None,
        var_names: VarNames = None,
        on_divergence: Any = "keep",
        on_nan: OnNan = "error",
        progress: bool = True,
    ) -> Draws:
        """Draws of this posterior in unconstrained space, with their scores.

        Parameters
        ----------
        samples : InferenceData, DataTree, Dataset, mapping or path, optional
            Constrained draws of all parameters; see `fastsksd.interop.stan.draws`. By default, the
            reference draws.
        model : bridgestan.StanModel, optional
            The compiled model; by default that of `model`.
        score : callable or model object, optional
            A score function from (n, d) to (n, d) in place of the Stan model, of the parameters in
            the order of `samples`. If it has a method `unconstrain`, from (n, d) constrained draws
            to (n, d), then it is a function of what that returns. Otherwise the draws are used as
            they are, and must be unbounded.
        var_names : str or sequence of str, optional
            Parameters to test; all by default. With `score`, its function is of all parameters
            nevertheless.
        on_divergence : {"keep", "error", "drop"}
            What to do with draws that the sampler marks as divergent. They are draws of the chain
            all the same, and removing them may hide a misfit: a diagnosis says how many there are.
        on_nan : {"error", "drop"}
            What to do with draws or scores that are not finite.
        progress : bool
            Show progress on standard error, if scores of a Stan model take more than a few seconds.

        Returns
        -------
        Draws
            Unconstrained draws with their scores.

        Raises
        ------
        ValueError
            If draws lack a parameter of the model, have it in another shape, or are not finite.
        """
        argument = "name" if samples is None else "samples"
        found: Any = self.reference() if samples is None else read(samples, argument)
        options = {
            "diverging": diverging(found),
            "var_names": var_names,
            "on_divergence": on_divergence,
            "on_nan": on_nan,
        }
        values = variables_of(found)
        if score is not None:
            return _scored(values, score, options)
        chosen = self.model() if model is None else model
        return unconstrained(chosen, values, argument=argument, progress=progress, **options)

    def __repr__(self) -> str:
        model, data = self.info.get("model_name"), self.info.get("data_name")
        return f"Posterior({self.name!r}, model={model!r}, data={data!r})"

    def _named(self, key: str) -> str:
        if not isinstance(self.info.get(key), str):
            raise ArgumentError("name", f"is {self.name!r}, which does not say its {key!r}")
        return self.info[key]


def load(path: str | os.PathLike[str], name: str) -> Posterior:
    """Find a posterior in a database on disk.

    Parameters
    ----------
    path : path
        The folder ``posterior_database``, or the one that holds it.
    name : str
        Name of the posterior, as in ``"eight_schools-eight_schools_centered"``.

    Returns
    -------
    Posterior
        Its data, model and reference draws are read when they are asked for.

    Raises
    ------
    FileNotFoundError
        If there is no database.
    ValueError
        If the database has no such posterior.

    Examples
    --------
    A database with one posterior, without a model in Stan: two draws of each of two chains.

    >>> import json, pathlib, tempfile, fastsksd as fs
    >>> with tempfile.TemporaryDirectory() as path:
    ...     for file, content in {
    ...         "posteriors/normal.json": {"reference_posterior_name": "normal"},
    ...         "reference_posteriors/draws/draws/normal.json": [{"mu": [0.5, 1]}, {"mu": [2, 0]}],
    ...     }.items():
    ...         place = pathlib.Path(path, "posterior_database", file)
    ...         place.parent.mkdir(parents=True, exist_ok=True)
    ...         _ = place.write_text(json.dumps(content))
    ...     posterior = fs.interop.posteriordb.load(path, "normal")
    ...     posterior.draws(score=lambda x: -x)
    Draws(4 of 2 chains, d=1: mu)
    """
    folder = Path(path)
    if not (folder / "posteriors").is_dir():
        folder = folder / "posterior_database"
    if not (folder / "posteriors").is_dir():
        raise FileNotFoundError(
            f"`path`: {os.fspath(path)} is no posterior database; there is no folder posteriors in "
            "it, nor in posterior_database."
        )
    known = sorted(
        re.sub(r"\.json(\.zip)?$", "", file.name)
        for file in (folder / "posteriors").iterdir()
        if re.search(r"\.json(\.zip)?$", file.name)
    )
    if name not in known:
        near = difflib.get_close_matches(name, known, 3, 0.5)
        near = near or [one for one in known if name.lower() in one.lower()][:3]
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "see its posteriors"
        raise ArgumentError(
            "name", f"must be one of the {len(known)} posteriors there; got {name!r}; {hint}"
        )
    info = _read_json(folder / "posteriors" / f"{name}.json")
    if not isinstance(info, dict):
        raise ValueError(f"{folder / 'posteriors' / name}.json: must hold an object.")
    return Posterior(name, folder, info)


def variables(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays (chains, draws, ...) from columns (chains, draws) named as in Stan.

    Names are ``theta[2,1]``, or ``theta.2.1`` as in files of CmdStan; indices count from 1.
    """
    entries: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
    for name, values in columns.items():
        match = re.fullmatch(r"([^\[\].]+)(?:\[([\d, ]+)\]|((?:\.\d+)+))?", name.strip())
        if match is None:
            raise ArgumentError(
                "samples", f"has a column {name!r}, which is no name of a parameter"
            )
        base, brackets, dots = match.groups()
        text = brackets or (dots or "")[1:].replace(".", ",")
        index = tuple(int(part) for part in text.split(",")) if text else ()
        entries.setdefault(base, {})[index] = np.asarray(values, dtype=float)
    found = {}
    for base, parts in entries.items():
        ranks = {len(index) for index in parts}
        shape = tuple(max(index[k] for index in parts) for k in range(min(ranks)))
        if (
            len(ranks) > 1
            or len(parts) != np.prod(shape, dtype=int)
            or 0 in map(min, filter(len, parts))
        ):
            raise ArgumentError(
                "samples",
                f"has {len(parts)} columns of {base!r}, which do not fill an array with indices "
                "from 1",
            )
        first = next(iter(parts.values()))
        array = np.empty((*first.shape, *shape))
        for index, values in parts.items():
            place: tuple[Any, ...] = (slice(None), slice(None), *(k - 1 for k in index))
            array[place] = values
        found[base] = array
    return found


def _scored(
    values: Mapping[str, tuple[np.ndarray, Any]], score: Score, options: dict[str, Any]
) -> Draws:
    """Draws for a score function of all parameters, through its `unconstrain` if it has one."""
    blocks = []
    for name, (array, _) in values.items():
        shape = array.shape[2:]
        axes = [range(1, size + 1) for size in shape]
        flat = array.reshape(*array.shape[:2], -1)
        blocks.append(Block(name, indexed(name, shape, axes), flat))
    change = getattr(score, "unconstrain", None)
    if callable(change):
        whole = np.concatenate([block.x for block in blocks], axis=2)
        x = np.asarray(change(whole.reshape(-1, whole.shape[2])), dtype=float)
        if x.shape != (whole.shape[0] * whole.shape[1], whole.shape[2]):
            raise ArgumentError(
                "score",
                f"must have a method `unconstrain` that returns an array of the shape of its "
                f"argument; got {x.shape}",
            )
        parts = np.split(
            x.reshape(whole.shape), np.cumsum([len(b.names) for b in blocks])[:-1], axis=2
        )
        blocks = [
            block._replace(x=part, names=unconstrained_names(block.names, part, block.x))
            for block, part in zip(blocks, parts, strict=True)
        ]
    return collect(blocks, score=lambda x, rows: evaluate_score(score, x, finite=False), **options)


def _there(path: Path) -> bool:
    return path.is_file() or path.with_name(f"{path.name}.zip").is_file()


def _read_json(path: Path) -> Any:
    """The content of a JSON file, which may be zipped."""
    archive = path.with_name(f"{path.name}.zip")
    try:
        if path.is_file():
            return json.loads(path.read_text(encoding="utf-8"))
        if not archive.is_file():
            raise FileNotFoundError(f"there is no file {archive}, and none without .zip.")
        with zipfile.ZipFile(archive) as file:
            (member,) = [name for name in file.namelist() if name.endswith(".json")]
            return json.loads(file.read(member))
    except zipfile.BadZipFile as error:
        raise ValueError(f"{archive}: can't be read as a .zip file: {error}.") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: can't be read as JSON: {error}.") from error
    except ValueError as error:
        raise ValueError(f"{archive}: must hold one .json file.") from error
