"""The shape of the package: rooms, one-way imports, light start-up, documented public names."""

import ast
import subprocess
import sys
from pathlib import Path

import fastsksd as fs

PACKAGE = Path(fs.__file__).parent

# Floors, from the ground up: a room imports from its own floor or from those below.
FLOORS = [
    # BLAS is held on one thread by the doors, so its threads are below them.
    ("_version", "_typing", "_blas", "_strict", "_validate", "_doors", "_progress"),
    ("compute",),
    ("kernels",),
    ("engines",),
    ("models", "score_difference", "slices", "refine", "discrepancy"),
    ("procedure",),
    ("baselines",),
    ("report", "plot", "result", "effects", "comparison", "modes"),
    ("gof",),
    ("scale",),
    ("interop", "learning"),
    ("experiments",),
    ("cli", "__main__"),
]
# Imports inside a function that point up, each for a reason.
UPWARD = {
    # A Dask array is tested where it lies.
    ("gof", "scale.cluster"),
    # Refits of a fitted model run in processes.
    ("gof", "scale.refits"),
}


def rooms():
    """Name and path of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            yield name, path


ROOMS = dict(rooms())


def floor_of(name):
    found = [k for k, floor in enumerate(FLOORS) if name.partition(".")[0] in floor]
    assert len(found) == 1, f"{name} is on no floor"
    return found[0]


def imported_rooms(name, path):
    """Rooms that a room imports, and whether it does so when it is loaded."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    tree = ast.parse(path.read_text())
    at_once = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                room = ".".join([*base, alias.name])
                yield room if room in ROOMS else ".".join(base), id(node) in at_once


def type_only(path):
    """Whether a room imports names for annotations only."""
    return path.name == "_typing.py"


def test_imports_point_down():
    for name, path in ROOMS.items():
        if type_only(path):
            continue
        for other, _ in imported_rooms(name, path):
            down = floor_of(other) <= floor_of(name)
            assert down or (name, other) in UPWARD, f"{name} imports {other}"


def test_no_room_imports_itself_in_a_circle():
    graph = {
        name: {other for other, at_once in imported_rooms(name, path) if at_once} - {name}
        for name, path in ROOMS.items()
    }
    while graph:
        free = [name for name, others in graph.items() if not others & graph.keys()]
        assert free, f"imports in a circle among {sorted(graph)}"
        for name in free:
            del graph[name]


def test_engines_do_not_import_each_other():
    engines = {"engines.direct", "engines.fourier", "engines.multivariate", "engines.gradients"}
    for name in engines:
        others = {other for other, _ in imported_rooms(name, ROOMS[name])}
        assert not others & engines, f"engine {name} imports {others & engines}"


def test_compiled_functions_use_the_house_decorators():
    for name, path in ROOMS.items():
        if name != "compute.jit":
            assert "njit" not in path.read_text(), f"{name} decorates with numba itself"


def imported_modules(path):
    """Modules from outside the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_only_one_room_touches_cuda():
    for name, path in ROOMS.items():
        touched = [module for module in imported_modules(path) if module.startswith("numba.cuda")]
        assert name == "engines.cuda.device" or not touched, f"{name} imports {touched}"


def test_only_one_room_touches_dask():
    for name, path in ROOMS.items():
        touched = {module.partition(".")[0] for module in imported_modules(path)} & {
            "dask",
            "distributed",
        }
        assert name == "scale.cluster" or not touched, f"{name} imports {touched}"


def test_import_is_light():
    loaded = subprocess.check_output(
        [sys.executable, "-c", "import sys, fastsksd; print(*sys.modules)"], text=True
    ).split()
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
        "fastsksd.cli.bench",
        "fastsksd.cli.demo",
    }
    numba_alone = subprocess.check_output(
        [sys.executable, "-c", "import sys, numba; print(*sys.modules)"], text=True
    ).split()
    assert not (heavy & set(loaded)) - set(numba_alone)


def test_public_names_are_documented():
    for name in fs.__all__:
        value = getattr(fs, name)
        assert isinstance(value, str) or value.__doc__, f"{name} has no docstring"
