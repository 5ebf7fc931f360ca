"""``fastsksd bench --engine cuda`` and ``fastsksd info`` in the simulator, at small sizes."""

from fastsksd.cli.device_bench import run_device_bench
from fastsksd.cli.info import info_lines


def test_bench_prints_every_row():
    lines = list(run_device_bench(1, {"n": 9, "m": 1, "n_resamples": 2, "n_test": 20, "d": 2}))
    for start in (
        "| Stein term",
        "| product of a pair",
        "| gradient of",
        "| 2 given slices",
        "| active slices",
    ):
        assert any(line.startswith(start) for line in lines), start
    assert sum("float32" in line for line in lines) == sum("float64" in line for line in lines) == 5


def test_info_says_that_it_is_simulated():
    assert any(line.startswith("CUDA: simulated") for line in info_lines())
