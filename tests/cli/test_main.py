"""The console command."""

import re

import pytest

from fastsksd.cli import bench
from fastsksd.cli.demo import demo_problem
from fastsksd.cli.main import main


def test_demo_rejects_and_finds_the_direction(capsys):
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    assert "the model is rejected" in text
    found = [float(value) for value in re.findall(r"direction [rg]\s+([0-9.]+)", text)]
    assert len(found) == 2 and min(found) > 0.8


def test_demo_depends_on_the_seed_alone():
    (x, _, hidden), (again, _, _) = demo_problem(3), demo_problem(3)
    assert (x == again).all() and abs(hidden @ hidden - 1) < 1e-12


def test_bench_compares_equal_work():
    import numpy as np

    import fastsksd as fs
    from fastsksd.compute.projections import project
    from fastsksd.engines import DirectEngine

    x = np.random.default_rng(0).standard_normal((40, 5))
    slices = fs.random_slices(5, 4, rng=0)
    y, s, a = slices.g @ x.T, -slices.r @ x.T, np.einsum("md,md->m", slices.r, slices.g)
    h = bench.numpy_medians(y)
    for kernel, numpy_matrix in (
        (fs.RBF(), bench.numpy_stein_matrix),
        (fs.IMQ(), bench.numpy_imq_matrix),
    ):
        np.testing.assert_allclose(
            DirectEngine(kernel.code, *project(x, -x, slices, kernel)).matrix(),
            numpy_matrix(y, s, a, h),
            rtol=1e-10,
            atol=1e-11,
        )
    ours = fs.active_slices(x, -x, basis="identity", debias=False).g
    np.testing.assert_allclose(
        np.abs(np.sum(ours * bench.numpy_ke_slices(x, -x), axis=1)), 1.0, rtol=1e-7
    )


@pytest.mark.parametrize(
    "arguments", [[], ["dance"], ["demo", "--seed", "-1"], ["bench", "--repeat", "0"]]
)
def test_bad_arguments_exit_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: fastsksd" in capsys.readouterr().err
