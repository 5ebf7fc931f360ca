"""From options to a plan: which test it is, and that every option given has a use in it.

A test is one of four:

given slices   directions chosen beforehand, one set or several named ones; nothing is searched for
one set        slices searched for on training samples, tested on the others
the family     the standard family, cross-fitted, with members without slices: the default
a baseline     a test without slices, see `fastsksd.baselines`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .._typing import Array, EngineName, Rng
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_choice,
    check_integer,
    check_number,
    check_positive_vector,
    check_rng,
    counted,
)
from ..engines import PAIRWISE, TOLERANCE, choose_engine
from ..kernels import Kernel, as_kernel
from ..refine import OPTIONS as REFINE_OPTIONS
from ..score_difference import ESTIMATORS, check_debias
from ..slices import as_slices, check_basis
from .covariances import FOLDS
from .family import (
    ACTIVE_MULTIPLES,
    COORDINATE_MULTIPLES,
    MULTIPLES,
    Pool,
    check_extra_pools,
    check_pools,
    coordinate_pool,
    named_pool,
)
from .importance import weights_in_use
from .metric import check_precondition
from .nulls import NULLS, check_resamples

# Samples beyond which replicates of the family meet groups of them. For 4000 samples in 20
# dimensions groups take a quarter of the time. Sooner they cost too much power: for 2500 samples
# 0.48 in place of 0.56 on average over four problems (92 paired trials of each, standard error of
# the difference 0.02; see notebooks/how_well_it_works.md).
TAKES_OVER = 4000
GROUPS = 2000  # at most, and more than half as many
_SETS_FOUND = 8  # sets of slices that are found for a family, at most
_FEWEST = 6  # samples of the default test: KE needs three in each half
_UNSLICED = 8  # members of the standard family that have no slices, at most
MOST_TRAINING = 5000  # samples that slices are found on by default: the cost is quadratic

_COMMON = {"precondition", "kernel", "null", "lag", "chains", "n_resamples", "engine", "tol"}
_COMMON |= {"method", "tolerance", "weights", "rng"}
_SEARCH = {"estimator", "score_q", "debias", "train"}
# Why an option is refused where slices are given.
NOTHING_TO_CHOOSE = ("has nothing to choose, as ", Option("slices"), " are given")


@dataclass(frozen=True, eq=False)
class Options:
    """What a user may choose, with the defaults of `gof_test`."""

    slices: Any = None
    n_slices: int | None = None
    basis: Any = None
    estimator: Any = "ke"
    score_q: Any = None
    debias: bool = True
    refine: int | Mapping[str, Any] = 0
    extra_slices: Any = None
    multiples: Any = None
    precondition: Any = "auto"
    train: Any = None
    kernel: Any = "rbf"
    null: str | None = None
    lag: float | str | None = None
    chains: Any = None
    n_resamples: int = 1000
    engine: EngineName = "auto"
    tol: float = TOLERANCE
    method: Any = "sksd"
    tolerance: Any = None
    weights: Any = None
    names: Any = None
    rng: Rng = None

    def given(self) -> list[str]:
        """Names of the options that differ from their defaults; a lag of 1 is independence.

        Names of coordinates are for every test.
        """
        defaults = {one.name: one.default for one in dataclasses.fields(self)}
        del defaults["names"]
        if isinstance(self.lag, (int, float)) and self.lag == 1:
            del defaults["lag"]
        return [
            name for name, default in defaults.items() if _differs(getattr(self, name), default)
        ]

    def refuse_unused(self, used: Iterable[str], *reason: str | Option) -> None:
        """Raise an error that names the first option given that is not `used`, with a reason."""
        unused = [name for name in self.given() if name not in set(used)]
        if unused:
            raise ArgumentError(unused[0], *reason, "; leave it out")


class TestWithoutSlices(Protocol):
    """A baseline as a plan sees it; see `fastsksd.baselines.base.Baseline`."""

    name: str
    nulls: tuple[str, ...]
    is_family: bool
    needs_score: bool
    has_kernel: bool
    takes_weights: bool

    @property
    def trained(self) -> bool:
        """Whether part of the samples is set apart for training."""
        ...

    @property
    def n_resamples(self) -> int | None:
        """Number of replicates that the method prescribes."""
        ...

    def search(self, plan: Plan, split: Any) -> Any:
        """What is found before the test."""
        ...

    def evaluate(self, plan: Plan, found: Any) -> Any:
        """The members of the test."""
        ...


@dataclass(frozen=True, eq=False)
class Search:
    """How slices are found on training samples.

    Attributes
    ----------
    standard : bool
        Whether all active slices are wanted, for the standard family.
    n_slices, basis, estimator, score_q, debias, engine_name
        As for `active_slices`.
    refine : dict
        Options of `refine_slices`; empty for no refinement.
    """

    standard: bool
    n_slices: int | None
    basis: Array | None
    estimator: Any
    score_q: Any
    debias: bool
    engine_name: EngineName
    refine: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Plan:
    """What a test will do, with all options checked.

    Attributes
    ----------
    kernel : Kernel
    null : str
    lag : float or None
        Length of the stretches of chains; 1 for independent samples, None if it is to be measured.
    n_resamples : int
    engine : callable
        Loads an engine, see `engines.choose_engine`.
    engine_name, tol
        As the user asked for them.
    rng : numpy.random.Generator
    weights : (n,) array or None
        Importance weights of the samples, with mean 1; None where they are equal.
    fixed : tuple of Pool
        Slices known beforehand, tested on all samples.
    search : Search or None
    train : None, "cross", float, int or array
        What slices or locations are found on.
    most_training : int or None
        Largest number of samples that slices of one part are found on.
    multiples : tuple of float
        Multiples of the bandwidth at which sets that are found are tested.
    precondition : {"auto", "raw", "diagonal", "full"} or (d, d) array
        Coordinates of the test, see `fastsksd.procedure.metric`; "auto" for the family only.
    is_family : bool
        Whether members are combined.
    standard : bool
        Whether they are those of the standard family, some of which have no slices.
    baseline : TestWithoutSlices or None
    """

    kernel: Kernel
    null: str
    lag: float | None
    n_resamples: int
    engine: Any
    engine_name: EngineName
    tol: float
    rng: np.random.Generator
    weights: Array | None = None
    fixed: tuple[Pool, ...] = ()
    search: Search | None = None
    train: Any = None
    most_training: int | None = None
    multiples: tuple[float, ...] = (1.0,)
    precondition: str | Array = "raw"
    is_family: bool = False
    standard: bool = False
    baseline: TestWithoutSlices | None = None

    @property
    def in_order(self) -> bool:
        """Whether the order of the samples counts, as in a Markov chain."""
        return self.lag is None or self.lag > 1

    def is_grouped(self, n: int) -> bool:
        """Whether replicates meet groups of the n samples, see `fastsksd.procedure.grouped`."""
        resampled = self.standard and self.null != "spectral"
        return resampled and n > TAKES_OVER and self.engine_name != "direct"

    @property
    def is_sliced(self) -> bool:
        """Whether slices are searched for, or coordinates are among them."""
        return self.standard or self.search is not None

    @property
    def needs_score(self) -> bool:
        """Whether scores at the samples are needed."""
        return self.baseline is None or self.baseline.needs_score


def make_plan(options: Options, baseline: TestWithoutSlices | None, n: int, d: int) -> Plan:
    """Check all options and turn them into the plan of a test of n samples in d dimensions."""
    nulls = NULLS if baseline is None else baseline.nulls
    null = nulls[0] if options.null is None else check_choice("null", options.null, nulls)
    common = Plan(
        kernel=as_kernel(options.kernel),
        null=null,
        lag=check_lag(options, null),
        n_resamples=check_resamples(options.n_resamples),
        engine=choose_engine(options.engine, options.tol),
        engine_name=options.engine,
        tol=options.tol,
        rng=check_rng(options.rng),
    )
    if options.engine in PAIRWISE and "tol" in options.given():
        raise ArgumentError(
            "tol", "is for Fourier series, and ", Option("engine", options.engine), " has none"
        )
    if baseline is not None:
        plan = _plan_of_baseline(options, baseline, common, n)
    elif options.slices is not None:
        plan = _plan_of_given_slices(options, common, d)
    elif options.n_slices is None and options.basis is None:
        plan = _plan_of_family(options, common, n, d)
    else:
        plan = _plan_of_one_set(options, common, n, d)
    plan = dataclasses.replace(
        plan, weights=weights_in_use(options.weights, n, null, options.given())
    )
    if baseline is None:
        groups = GROUPS if plan.is_grouped(n) else 0
        check_resamples(plan.n_resamples, most_members(plan), groups=groups, null=null)
    if plan.is_family and baseline is None:
        if np.ndim(plan.kernel.bandwidth):
            raise ArgumentError(
                "kernel", "must have one bandwidth, or the median, for a family of slice sets"
            )
        if null == "spectral" and "n_resamples" in options.given():
            raise ArgumentError(
                "n_resamples",
                "has no use for a family with ",
                Option("null", "spectral"),
                ", which draws no replicates; leave it out",
            )
    return plan


def most_members(plan: Plan) -> int:
    """How many members a test has at most."""
    if not plan.is_family:
        return 1
    members = sum(len(pool.sets) * len(pool.multiples) for pool in plan.fixed)
    members += _SETS_FOUND * len(plan.multiples) if plan.search is not None else 0
    return members + (_UNSLICED if plan.standard else 0)


def is_cross(train: object) -> bool:
    """Whether `train` asks for cross-fitting."""
    return isinstance(train, str) and train == "cross"


def default_train(n: int) -> float | int:
    """A fifth of the samples, or what the search, at quadratic cost, is given at most."""
    return 0.2 if n <= 5 * MOST_TRAINING else MOST_TRAINING


def most_searched(n: int) -> int:
    """Largest number of samples that slices are found on, in either half of n.

    It grows with the root of n, so that the search takes linear time, to twice what it is for few.
    How many find a hidden direction is in notebooks/how_well_it_works.md.
    """
    return int(MOST_TRAINING * np.clip(np.sqrt(n / (2 * MOST_TRAINING)), 1.0, 2.0))


def check_test_size(n: int) -> None:
    """A statistic needs pairs of samples."""
    if n < 2:
        raise ArgumentError("x", f"leaves {counted(n, 'test sample')}; at least 2 are needed")


def _plan_of_baseline(options: Options, baseline: TestWithoutSlices, common: Plan, n: int) -> Plan:
    used = {"method", "null", "rng"}
    used |= {"n_resamples"} if baseline.n_resamples is None else set()
    used |= {"kernel"} if baseline.has_kernel else set()
    used |= {"train"} if baseline.trained else set()
    used |= {"lag", "chains"} if "wild" in baseline.nulls else set()
    used |= {"tolerance"} if baseline.needs_score else set()
    used |= {"weights"} if baseline.takes_weights else set()
    method = Option("method", baseline.name)
    options.refuse_unused(used, "does not apply to ", method)
    train = None
    if baseline.trained:
        train = default_train(n) if options.train is None else options.train
        if is_cross(train):
            raise ArgumentError(
                "train",
                "must be a fraction, a number or samples for ",
                method,
                "; 'cross' is for families of slices",
            )
    return dataclasses.replace(
        common,
        baseline=baseline,
        train=train,
        is_family=baseline.is_family,
        n_resamples=baseline.n_resamples or common.n_resamples,
    )


def _plan_of_given_slices(options: Options, common: Plan, d: int) -> Plan:
    options.refuse_unused(_COMMON | {"slices", "multiples"}, *NOTHING_TO_CHOOSE)
    precondition = _check_precondition(options, d, "raw")
    if isinstance(precondition, str) and precondition == "full":
        raise ArgumentError(
            "precondition",
            "must not be 'full' for given ",
            Option("slices"),
            ", which leave no samples to learn it on",
            remedy="Give 'diagonal' or a matrix found on other samples.",
        )
    common = dataclasses.replace(common, precondition=precondition)
    if isinstance(options.slices, Mapping):
        multiples = _check_multiples(options.multiples, MULTIPLES)
        pools = check_pools("slices", options.slices, d, multiples)
        return dataclasses.replace(common, fixed=pools, is_family=True)
    if "multiples" in options.given():
        raise ArgumentError(
            "multiples", "is for a family: give ", Option("slices"), " as a mapping of names"
        )
    return dataclasses.replace(common, fixed=(named_pool("given", as_slices(options.slices, d)),))


def _plan_of_family(options: Options, common: Plan, n: int, d: int) -> Plan:
    if "refine" in options.given():
        _check_refine(options.refine)
        raise ArgumentError(
            "refine",
            "improves slices found on training samples: give ",
            Option("n_slices"),
            " or ",
            Option("basis"),
            " with it",
        )
    used = _COMMON | {"extra_slices", "multiples"}
    if d == 1:
        options.refuse_unused(used, "has no use: in one dimension there is no direction to find")
    multiples = _check_multiples(options.multiples, COORDINATE_MULTIPLES)
    precondition = _check_precondition(options, d, "auto")
    pools = check_extra_pools(options.extra_slices, d, multiples)
    full = isinstance(precondition, str) and precondition == "full"
    if full and n < 3 * FOLDS:
        raise ArgumentError(
            "precondition",
            f"is 'full', which is learnt on folds of the samples: at least {3 * FOLDS} samples are "
            f"needed; got {n}",
        )
    if d == 1 or not full:
        pools = (coordinate_pool(d, multiples), *pools)
    family = dataclasses.replace(
        common,
        fixed=pools,
        multiples=_check_multiples(options.multiples, ACTIVE_MULTIPLES),
        precondition=precondition,
        is_family=True,
        standard=True,
    )
    if d == 1:
        return family
    options.refuse_unused(used | _SEARCH, "does not apply to the family")
    if not _SEARCH.intersection(options.given()) and n < _FEWEST:
        raise ArgumentError(
            "x",
            f"has {counted(n, 'sample')}; the default test needs at least {_FEWEST}",
            remedy=("Give more samples, or fixed ", Option("slices"), "."),
        )
    # A number of samples is the user's choice; the others of a half are tested all the same.
    numbered = (
        options.train is not None and not is_cross(options.train) and np.ndim(options.train) == 0
    )
    return dataclasses.replace(
        family,
        search=_make_search(options, d),
        train="cross" if options.train is None else options.train,
        most_training=None if numbered else most_searched(n),
    )


def _plan_of_one_set(options: Options, common: Plan, n: int, d: int) -> Plan:
    train = default_train(n) if options.train is None else options.train
    used = _COMMON | _SEARCH | {"n_slices", "basis", "refine"}
    used |= {"multiples"} if is_cross(train) else set()
    options.refuse_unused(
        used,
        "is for a family of slice sets; with ",
        Option("n_slices"),
        " or ",
        Option("basis"),
        " there is none",
    )
    return dataclasses.replace(
        common,
        search=_make_search(options, d),
        train=train,
        multiples=_check_multiples(options.multiples, MULTIPLES) if is_cross(train) else (1.0,),
        precondition=_check_precondition(options, d, "raw"),
        is_family=is_cross(train),
    )


def _make_search(options: Options, d: int) -> Search:
    basis = check_basis(options.basis, options.n_slices, d)
    check_choice("estimator", options.estimator, ESTIMATORS)
    check_debias(options.debias, options.estimator)
    return Search(
        standard=options.n_slices is None and basis is None,
        n_slices=options.n_slices,
        basis=basis,
        estimator=options.estimator,
        score_q=options.score_q,
        debias=options.debias,
        engine_name=options.engine,
        refine=_check_refine(options.refine),
    )


def check_lag(options: Options, null: str) -> float | None:
    """The lag of the options, None for "auto"; 1 for independent samples."""
    lag = options.lag
    if lag is None:
        if options.chains is None:
            return 1.0
        if null != "wild":
            raise ArgumentError(
                "chains", "are for ", Option("null", "wild"), "; got ", Option("null", null)
            )
        return None
    if isinstance(lag, str) and lag != "auto":
        raise ArgumentTypeError("lag", f"must be a number or 'auto'; got {lag!r}")
    value = None if isinstance(lag, str) else check_number("lag", lag, 1.0)
    if null != "wild" and value != 1.0:
        raise ArgumentError(
            "lag",
            "is for ",
            Option("null", "wild"),
            ", whose signs can follow autocorrelated samples; got ",
            Option("null", null),
        )
    return value


def _check_precondition(options: Options, d: int, default: str) -> str | Array:
    """The coordinates of the test, with a default for "auto"."""
    checked = check_precondition(options.precondition, d)
    return default if isinstance(checked, str) and checked == "auto" else checked


def _check_multiples(multiples: Any, default: tuple[float, ...]) -> tuple[float, ...]:
    """Distinct multiples of the bandwidth, in the order given."""
    if multiples is None:
        return default
    values = np.atleast_1d(check_positive_vector("multiples", multiples)).tolist()
    return tuple(dict.fromkeys(values))


def _check_refine(refine: object) -> dict[str, Any]:
    """Options for `refine_slices`, empty for none, from a number of epochs or a mapping."""
    if isinstance(refine, Mapping):
        unknown = [name for name in refine if name not in REFINE_OPTIONS]
        if unknown:
            listing = ", ".join(sorted(REFINE_OPTIONS))
            raise ArgumentError("refine", f"may hold {listing}; got {unknown[0]!r}")
        return dict(refine)
    epochs = check_integer("refine", refine, 0)
    return {"epochs": epochs} if epochs else {}


def _differs(value: Any, default: Any) -> bool:
    """Whether an option has another value than its default."""
    if value is default:
        return False
    if default is None or not np.isscalar(value):
        return not (
            isinstance(default, tuple)
            and isinstance(value, (tuple, list))
            and tuple(value) == default
        )
    return bool(value != default) or isinstance(value, bool) != isinstance(default, bool)
