"""`BatchResult`: the outcome of many tests, and p-values that allow for their number."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from html import escape
from typing import Literal, overload

import numpy as np

from .._typing import Array
from .._validate import check_choice, check_probability
from ..report.rates import holm
from ..result import GofResult

_SHOWN = 20  # lines of a printed result


class BatchError(RuntimeError):
    """Tests that failed, or a batch that could not go on.

    Attributes
    ----------
    result : BatchResult
        What was done.
    """

    def __init__(self, message: str, result: BatchResult) -> None:
        super().__init__(message)
        self.result = result


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BatchResult:
    """Outcome of many tests: a sequence of their results, in the order of the problems.

    Attributes
    ----------
    results : tuple of GofResult
        None where a test failed.
    names : tuple of str
        Names of the problems, by default their numbers.
    errors : dict
        For each test that failed, by number, what was wrong.

    See Also
    --------
    gof_batch : Makes it.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((3, 200, 2))
    >>> x[2] *= 2.0
    >>> batch = fs.gof_batch([(some, -some) for some in x], progress=False, rng=0)
    >>> batch.reject(method="holm").tolist()
    [False, False, True]
    """

    results: tuple[GofResult | None, ...]
    names: tuple[str, ...]
    errors: dict[int, str]

    @property
    def pvalues(self) -> Array:
        """P-value of each test, NaN where it failed or chains are too short to tell."""
        return self._values("pvalue")

    @property
    def statistics(self) -> Array:
        """Statistic of each test, NaN where it failed."""
        return self._values("statistic")

    def _values(self, name: str) -> Array:
        return np.array(
            [np.nan if result is None else getattr(result, name) for result in self.results],
            dtype=float,
        )

    def adjusted_pvalues(self, method: Literal["holm", "bh"] = "holm") -> Array:
        """P-values that allow for the number of tests.

        Tests that failed do not count.

        Parameters
        ----------
        method : {"holm", "bh"}
            What is bounded.

            "holm"
                The probability of any false rejection, however the tests depend on each other [1]_.
            "bh"
                The expected fraction of false ones among the rejections, for tests that are
                independent or positively dependent [2]_.

        Returns
        -------
        (k,) array
            NaN where a test failed.

        References
        ----------
        .. [1] S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
           Journal of Statistics 6, 1979.
        .. [2] Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", Journal of the
           Royal Statistical Society B 57, 1995.
        """
        check_choice("method", method, ("holm", "bh"))
        adjusted = self.pvalues
        known = np.flatnonzero(~np.isnan(adjusted))
        order = known[np.argsort(adjusted[known], kind="stable")]
        if method == "holm":
            adjusted[known] = np.exp(holm(np.log(adjusted[known])))
        else:
            factors = known.size / np.arange(known.size, 0, -1)
            smallest = np.minimum.accumulate(factors * adjusted[order][::-1])[::-1]
            adjusted[order] = np.minimum(smallest, 1.0)
        return adjusted

    def reject(self, alpha: float = 0.05, method: Literal["holm", "bh"] = "holm") -> np.ndarray:
        """Whether each model is rejected, by its adjusted p-value.

        Parameters
        ----------
        alpha : float
            Level of all tests together.
        method : {"holm", "bh"}
            As for `adjusted_pvalues`.

        Returns
        -------
        (k,) array of bool
            False where a test failed.
        """
        return self.adjusted_pvalues(method) <= check_probability("alpha", alpha)

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[GofResult | None]:
        return iter(self.results)

    @overload
    def __getitem__(self, index: int | str) -> GofResult | None: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[GofResult | None, ...]: ...

    def __getitem__(
        self, index: int | str | slice
    ) -> GofResult | tuple[GofResult | None, ...] | None:
        """The result of a problem, by number or by name; those of several, by a slice."""
        if isinstance(index, str):
            found = [number for number, name in enumerate(self.names) if name == index]
            if len(found) != 1:
                raise KeyError(f"{len(found) or 'no'} problems are named {index!r}")
            index = found[0]
        return self.results[index]

    def _title(self) -> str:
        rejected, failed = np.count_nonzero(self.reject()), len(self.errors)
        return f"{len(self)} tests, {rejected} rejected at level 0.05 (Holm)" + (
            f", {failed} failed" if failed else ""
        )

    def _table(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("problem", "p-value", "Holm", "statistic", "samples")]
        for number, (name, result, adjusted) in enumerate(
            zip(self.names[:_SHOWN], self.results, self.adjusted_pvalues(), strict=False)
        ):
            if result is None:
                rows.append((name, self.errors.get(number, "not run"), "", "", ""))
                continue
            if result.draws_needed:
                lacking = "too few" if result.weighted else "too short"
                rows.append((name, lacking, "", f"{result.statistic:.4g}", str(result.n_test)))
                continue
            numbers = (f"{value:.4g}" for value in (result.pvalue, adjusted, result.statistic))
            rows.append((name, *numbers, str(result.n_test)))
        return rows

    def __repr__(self) -> str:
        lines = [
            " ".join(cell.rjust(11) if k else cell.ljust(11) for k, cell in enumerate(row)).rstrip()
            for row in self._table()
        ]
        more = [f"... and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        return "\n  ".join([f"BatchResult: {self._title()}", *lines, *more])

    def _repr_html_(self) -> str:
        header, *rows = self._table()
        head = "".join(f"<th>{cell}</th>" for cell in header)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        more = f"<p>... and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        caption = f"<caption>BatchResult: {self._title()}</caption>"
        return f"<table>{caption}<tr>{head}</tr>{body}</table>{more}"
