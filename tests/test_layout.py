"""The shape of the package: rooms, one-way imports, light start-up, documented public names."""

import ast
import subprocess
import sys
from pathlib import Path

import fastsksd as fs

PACKAGE = Path(fs.__file__).parent

# Imports point one way: a room may import only from rooms listed before it.
ORDER = [
    "_version",
    "progress",
    "journal",
    "pool",
    "_validate",
    "_jit",
    "_linalg",
    "kernels",
    "series",
    "engines.pairs",
    "engines.direct",
    "engines.fourier",
    "engines.multivariate",
    "engines.gradients",
    "engines.smoothing",
    "engines.cuda.errors",
    "engines.cuda.held",
    "engines.cuda.device",
    "engines.cuda.pointwise",
    "engines.cuda.blocks",
    "engines.cuda.data",
    "engines.cuda.weights",
    "engines.cuda.pairs",
    "engines.cuda.fourier",
    "engines.cuda.smoothing",
    "engines.cuda.gradients",
    "engines.cuda.report",
    "engines.cuda",
    "engines",
    "_gibbs",
    "models",
    "sensitivity",
    "score_difference",
    "slices",
    "discrepancy",
    "refine",
    "lags",
    "nulls",
    "members",
    "baselines.base",
    "baselines.features",
    "baselines.ksd",
    "baselines.fssd",
    "baselines.mmd",
    "baselines.rfsd",
    "baselines",
    "aggregate",
    "folds",
    "witness",
    "explain",
    "wording",
    "plot",
    "gof",
    "streaming",
    "interop._library",
    "interop.torch",
    "interop.jax",
    "interop._draws",
    "interop._trees",
    "interop.scipy",
    "interop.arviz",
    "interop.pymc",
    "interop.numpyro",
    "interop.blackjax",
    "interop.stan",
    "interop",
    "cluster",
    "batch",
    "learning.checkpoint",
    "learning.scoring",
    "learning.loss",
    "learning.lsd",
    "learning.ica",
    "learning",
    "demo",
    "bench",
    "device_bench",
    "info",
    "experiments.problems",
    "experiments.report",
    "experiments.benchmark_gof",
    "experiments.rbm",
    "experiments.ica",
    "experiments.level",
    "experiments.power",
    "experiments.runner",
    "experiments",
    "files",
    "targets",
    "command",
    "cli",
    "__main__",
]
ENGINES = {"engines.direct", "engines.fourier", "engines.multivariate", "engines.gradients"}


def rooms():
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name, path


def imported_rooms(name, path):
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                room = ".".join([*base, alias.name])
                yield room if room in ORDER else ".".join(base)


def test_every_room_is_listed():
    assert sorted(name for name, _ in rooms()) == sorted(ORDER)


def test_imports_point_one_way():
    for name, path in rooms():
        for other in imported_rooms(name, path):
            assert ORDER.index(other) < ORDER.index(name), f"{name} imports {other}"
            assert not (name in ENGINES and other in ENGINES), f"engine {name} imports engine {other}"


def test_compiled_functions_use_the_house_decorators():
    for name, path in rooms():
        if name != "_jit":
            assert "njit" not in path.read_text(), f"{name} decorates with numba itself"


def imported_modules(path):
    """Modules from outside the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_only_one_room_touches_cuda():
    for name, path in rooms():
        touched = [module for module in imported_modules(path) if module.startswith("numba.cuda")]
        assert name == "engines.cuda.device" or not touched, f"{name} imports {touched}"


def test_only_one_room_touches_dask():
    for name, path in rooms():
        touched = {module.partition(".")[0] for module in imported_modules(path)} & {"dask", "distributed"}
        assert name == "cluster" or not touched, f"{name} imports {touched}"


def test_import_is_light():
    loaded = subprocess.check_output([sys.executable, "-c", "import sys, fastsksd; print(*sys.modules)"], text=True).split()
    heavy = {
        "scipy.linalg",
        "scipy.stats",
        "scipy.sparse",
        "matplotlib",
        "pandas",
        "dask",
        "distributed",
        "torch",
        "jax",
        "arviz",
        "xarray",
        "pymc",
        "numpyro",
        "numba.cuda",
        "fastsksd.bench",
        "fastsksd.demo",
    }
    numba_alone = subprocess.check_output([sys.executable, "-c", "import sys, numba; print(*sys.modules)"], text=True).split()
    assert not (heavy & set(loaded)) - set(numba_alone)


def test_public_names_are_documented():
    for name in fs.__all__:
        value = getattr(fs, name)
        assert isinstance(value, str) or value.__doc__, f"{name} has no docstring"
