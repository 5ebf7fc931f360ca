"""What can be known about the kernels without a GPU: ``python -m fastsksd.engines.cuda.report``.

Every kernel is compiled to PTX for several compute capabilities and assembled by ptxas. That gives
registers, shared memory and spills, and from these how many warps a multiprocessor can hold. The
hot loops of the main kernels give operations and bytes for each unit of work, and with a GPU's
published rates the most it could do in a second. These are predictions; nothing here was measured
on a GPU.

It needs the package numba-cuda and ptxas (pip install nvidia-cuda-nvcc). With nvdisasm (pip install
nvidia-cuda-nvdisasm) operations are counted in the assembled code, where multiplications and
additions are fused, and not in the PTX.
"""

import importlib.metadata
import math
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import NamedTuple

from numba import float32, float64

from . import blocks, data, device, fourier, gaussian, gradients, pairs, smoothing, weights

ROOMS = (blocks, data, weights, pairs, fourier, smoothing, gaussian, gradients)
CAPABILITIES = ((7, 5), (8, 0), (9, 0))
_KINDS = {0: "RBF", 1: "IMQ"}
_STATIC_SHARED = 48 * 1024  # bytes that a block may have without asking


class NotHere(RuntimeError):
    """A tool that is missing; the message says how to install it."""


class Limits(NamedTuple):
    """Limits of one multiprocessor: threads, blocks, and bytes of shared memory.

    Each block costs the `reserved` bytes on top of its own.
    """

    threads: int
    blocks: int
    shared: int
    reserved: int


_LIMITS = {
    (7, 5): Limits(1024, 16, 64 * 1024, 0),
    (8, 0): Limits(2048, 32, 164 * 1024, 1024),
    (8, 9): Limits(1536, 24, 100 * 1024, 1024),
    (9, 0): Limits(2048, 32, 228 * 1024, 1024),
    (10, 0): Limits(2048, 32, 228 * 1024, 1024),
    (12, 0): Limits(1536, 24, 100 * 1024, 1024),
}
_REGISTERS = 65536


class Gpu(NamedTuple):
    """Published rates of a GPU.

    Multiprocessors, boost clock in Hz, results of each precision per clock and multiprocessor, and
    bytes per second.
    """

    name: str
    processors: int
    clock: float
    double: int
    single: int
    memory: float


GPUS = (
    Gpu("A100 SXM 80 GB", 108, 1.41e9, 32, 64, 2.04e12),
    Gpu("H100 SXM", 132, 1.98e9, 64, 128, 3.35e12),
    Gpu("RTX 4090", 128, 2.52e9, 2, 128, 1.01e12),
)
# Results in double and in single precision per clock and multiprocessor, from each compute
# capability on.
_THROUGHPUT = {
    (7, 0): (32, 64),
    (7, 5): (2, 64),
    (8, 0): (32, 64),
    (8, 6): (2, 128),
    (9, 0): (64, 128),
    (12, 0): (2, 128),
}
_ISSUED = 128  # instructions of threads per clock and multiprocessor
_SHARED_BYTES = 128  # per clock and multiprocessor


class Assembled(NamedTuple):
    """What ptxas says of a kernel."""

    kernel: device.Kernel
    title: str
    capability: tuple
    registers: int
    shared: int
    stack: int
    spills: int
    ptx: str
    cubin: bytes

    @property
    def occupancy(self):
        """Fraction of a multiprocessor's warps that blocks of this kernel can fill."""
        limits = _LIMITS[max(known for known in _LIMITS if known <= self.capability)]
        threads = math.prod(self.kernel.block)
        per_warp = -(-self.registers // 8) * 8 * 32
        warps = _REGISTERS // per_warp // 4 * 4
        fitting = [limits.blocks, limits.threads // threads, warps * 32 // threads]
        if self.shared:
            fitting.append(limits.shared // (self.shared + limits.reserved))
        return min(fitting) * threads / limits.threads


class Loop(NamedTuple):
    """Instructions of a hot loop's body, and bytes of shared memory it moves, for each thread."""

    double: int
    single: int
    all: int
    shared: int


def every_kernel():
    """All kernels with a title each."""
    for make, variants in device.KERNELS:
        for variant in variants:
            kernel = make(*variant)
            names = [_KINDS.get(value, str(value)) for value in variant]
            yield " ".join([kernel.name, *names]), kernel


def compile_ptx(kernel, capability):
    """PTX of a kernel; for a capability that the compiler does not know, that of the newest one."""
    compiler = getattr(device.cuda, "compile", None)
    if device.implementation != "nvidia" or device.simulated or compiler is None:
        raise NotHere(
            "compiling without a driver needs the package numba-cuda: pip install 'fastsksd[cu13]'."
        )
    ptx, _ = compiler(
        kernel.function,
        kernel.signature,
        cc=capability,
        device=False,
        abi="numba",
        output="ptx",
        **kernel.options,
    )
    return ptx


def newest_capability():
    """The newest that the installed NVVM accepts."""
    digits = re.search(r"^\.target sm_(\d+)", compile_ptx(blocks.fill(), (99, 0)), re.MULTILINE)[1]
    return int(digits[:-1]), int(digits[-1])


def tool(name):
    """Path of one of NVIDIA's tools: from a wheel, or on the PATH."""
    folders = Path(sysconfig.get_paths()["purelib"]).glob(f"nvidia/*/bin/{name}*")
    found = next(
        (str(path) for path in sorted(folders) if path.stem == name), None
    ) or shutil.which(name)
    if found is None:
        raise NotHere(
            f"{name} was not found: pip install nvidia-cuda-{'nvcc' if name == 'ptxas' else name}."
        )
    return found


def assemble(title, kernel, capability):
    """Compile and assemble one kernel."""
    ptx = compile_ptx(kernel, capability)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [
            tool("ptxas"),
            "-v",
            "-arch",
            f"sm_{capability[0]}{capability[1]}",
            source,
            "-o",
            target,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ptxas refused {title} for {capability}: {done.stderr}")
        return Assembled(
            kernel,
            title,
            capability,
            *ptxas_figures(done.stdout + done.stderr),
            ptx,
            target.read_bytes(),
        )


def ptxas_figures(text):
    """Registers, bytes of shared memory, of stack and of spills, from what ``ptxas -v`` prints."""
    shared = re.search(r"(\d+) bytes smem", text)
    stack, stores, loads = map(
        int,
        re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text
        ).groups(),
    )
    return (
        int(re.search(r"Used (\d+) registers", text)[1]),
        int(shared[1]) if shared else 0,
        stack,
        stores + loads,
    )


def hot_loop(code):
    """The loop with most multiplications, without those of inner loops, in PTX or assembled."""
    lines = code.splitlines()
    labels, loops = {}, []
    for place, line in enumerate(lines):
        label = re.match(r"\s*([.$][\w$]+):", line)
        if label:
            labels[label[1]] = place
        target = re.search(r"\b(?:bra|BRA)\b\S*\s+(?:`\()?([.$][\w$]+)", line)
        if target and target[1] in labels:
            loops.append((labels[target[1]], place))
    own = [
        [
            lines[k]
            for k in range(a, b)
            if not any(a <= c <= k < d <= b and (a, b) != (c, d) for c, d in loops)
        ]
        for a, b in loops
    ]
    return _counted(
        max(
            own,
            key=lambda body: sum(
                bool(re.search(r"\b(fma|mul|[df]fma|[df]mul)\b", line.lower())) for line in body
            ),
        )
    )


def _counted(lines):
    double = single = total = shared = 0
    for line in lines:
        operation = re.match(
            r"\s*(?:/\*\w+\*/)?\s*(?:@!?%?\w+\s+)?([A-Za-z]\w*(?:\.\w+(?:::\w+)?)*)\s", line
        )
        if not operation:
            continue
        name = operation[1].lower()
        total += 1
        double += bool(
            re.match(
                r"(d(add|mul|fma|setp|mnmx)\b)|((add|sub|mul|fma|max|min|neg|abs|setp|div|sqrt|rcp)\.(\w+\.)*f64)",
                name,
            )
        )
        single += bool(
            re.match(
                r"(f(add|mul|fma|setp|mnmx|sel)\b)|(mufu)|((add|sub|mul|fma|max|min|neg|abs|setp|div|sqrt|rcp|ex2|rsqrt)\.(\w+\.)*f32)",
                name,
            )
        )
        if name.startswith(("ld.shared", "lds")):
            wide = re.search(r"(\d+)$", name)
            shared += (int(wide[1]) // 8 if wide and int(wide[1]) in (32, 64, 128) else 4) * (
                2 if ".v2" in name else 1
            )
    return Loop(double, single, total, shared)


class Work(NamedTuple):
    """A kernel whose speed is predicted.

    What its hot loop does, how many units of that a pass of the loop makes, and the global bytes
    for each unit.
    """

    title: str
    kernel: device.Kernel
    units: object
    bytes: float


def works():
    """The main kernels. A pair has a product for each replicate and a Stein term for each slice."""
    for code, real in pairs.VARIANTS:
        loads = 2 * _size(real) * (1 / device.SPAN + 1 / pairs.WIDTH)
        yield Work(
            f"Stein term of a pair, {_KINDS[code]}, {real}",
            pairs.stein_tile(code, real),
            _constant(pairs.TERMS),
            loads,
        )
    for real in (float64, float32):
        products = {float64: lambda loop: loop.double, float32: lambda loop: loop.single}[real]
        yield Work(
            f"product of a pair and a replicate, {real}",
            pairs.quadratic_forms(real),
            products,
            2 * _size(real) / device.SPAN,
        )
    for code, real in gradients.VARIANTS:
        # Bytes from shared memory for each term, however often the loop is unrolled.
        loads = 2 * _size(real)
        yield Work(
            f"gradient of an ordered pair, {_KINDS[code]}, {real}",
            gradients.slice_slopes(code, real),
            lambda loop, loads=loads: loop.shared / loads,
            loads / device.THREADS,
        )


def _size(real):
    return real.bitwidth // 8


def _constant(value):
    return lambda loop: value


def predicted_rate(loop, work, gpu):
    """The most units per second, and what bounds them."""
    units = work.units(loop)
    clock = gpu.processors * gpu.clock
    seconds = {
        "double": loop.double / units / (gpu.double * clock),
        "single": loop.single / units / (gpu.single * clock),
        "issue": loop.all / units / (_ISSUED * clock),
        "shared memory": loop.shared / units / (_SHARED_BYTES * clock),
        "memory": work.bytes / gpu.memory,
    }
    bound = max(seconds, key=seconds.get)
    return 1.0 / seconds[bound], bound


def this_gpu(index=0):
    """The device number `index` as a `Gpu`, or None where its driver does not tell enough."""
    known = device.attributes(index)
    if not {"processors", "clock", "memory"} <= set(known) or known["capability"] < min(
        _THROUGHPUT
    ):
        return None
    rates = _THROUGHPUT[max(some for some in _THROUGHPUT if some <= known["capability"])]
    return Gpu(known["name"], known["processors"], known["clock"], *rates, known["memory"])


def predictions(gpu):
    """Units per second that the hot loops in PTX allow on a GPU, by title of the work.

    Empty where there is no compiler.
    """
    try:
        return {
            work.title: predicted_rate(hot_loop(compile_ptx(work.kernel, (8, 0))), work, gpu)[0]
            for work in works()
        }
    except NotHere:
        return {}


def disassembled(cubin):
    """The assembled code as text, or None without nvdisasm."""
    try:
        nvdisasm = tool("nvdisasm")
    except NotHere:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        return subprocess.run(
            [nvdisasm, "-c", path], capture_output=True, text=True, check=True
        ).stdout


def run(out=print):
    """Print all tables; returns what is wrong, a list of sentences."""
    wrong = []
    capabilities = [*CAPABILITIES, newest_capability()]
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("numba", "numba-cuda", "nvidia-nvvm")
        if _known(name)
    )
    out(
        f"Compiled by {versions}; assembled by {tool('ptxas').rsplit('/', 1)[-1]}. None of these "
        "kernels has run on a GPU.\n"
    )
    out(
        "| kernel | hot | "
        + " | ".join(
            f"sm_{a}{b}: registers, shared bytes, spills, occupancy" for a, b in capabilities
        )
        + " |"
    )
    out("|---" * (2 + len(capabilities)) + "|")
    reference = {}
    for title, kernel in every_kernel():
        cells = []
        for capability in capabilities:
            done = assemble(title, kernel, capability)
            cells.append(f"{done.registers}, {done.shared}, {done.spills}, {done.occupancy:.0%}")
            if kernel.hot and done.spills:
                wrong.append(f"{title} spills {done.spills} bytes on {capability}")
            if done.shared > _STATIC_SHARED:
                wrong.append(f"{title} has {done.shared} bytes of shared memory on {capability}")
            if capability == (8, 0):
                reference[id(kernel)] = done
        out(f"| {title} | {'yes' if kernel.hot else ''} | " + " | ".join(cells) + " |")
    out(
        "\nPREDICTED speed, the most that the rates of a GPU allow, from the hot loops for sm_80; "
        "nothing was measured.\n"
    )
    columns = [
        "unit of work",
        "double ops",
        "single ops",
        "all instructions",
        "shared bytes",
        "global bytes",
        "PTX: double, single, all",
        *(f"{gpu.name}, units/s (bound by)" for gpu in GPUS),
    ]
    out("| " + " | ".join(columns) + " |")
    out("|---" * len(columns) + "|")
    for work in works():
        done = reference[id(work.kernel)]
        text = disassembled(done.cubin)
        ptx = hot_loop(done.ptx)
        loop = ptx if text is None else hot_loop(text)
        counts = " | ".join(f"{value / work.units(loop):.1f}" for value in loop)
        in_ptx = ", ".join(f"{value / work.units(ptx):.1f}" for value in ptx[:3])
        speeds = " | ".join("{:.1e} ({})".format(*predicted_rate(loop, work, gpu)) for gpu in GPUS)
        out(f"| {work.title} | {counts} | {work.bytes:.2f} | {in_ptx} | {speeds} |")
    return wrong


def _known(name):
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def main():
    """Print the tables.

    The exit code is 1 when a hot kernel spills or has too much shared memory, and 2 when a tool is
    missing.
    """
    try:
        wrong = run()
    except NotHere as error:
        print(f"fastsksd: {error}", file=sys.stderr)
        return 2
    for sentence in wrong:
        print(f"fastsksd: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
