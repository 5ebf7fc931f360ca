"""Stan models compiled for BridgeStan with the compiler and headers that httpstan ships."""

import importlib.util
import shutil
import subprocess
from pathlib import Path


def available():
    """Whether there is all that compiling needs."""
    return importlib.util.find_spec("httpstan") is not None and shutil.which("g++") is not None


def compile_model(stan_file, library):
    """Compile a Stan file to a shared library for BridgeStan."""
    import bridgestan

    stan = Path(importlib.util.find_spec("httpstan").origin).parent
    cpp = Path(library).with_suffix(".cpp")
    subprocess.run([stan / "stanc", f"--o={cpp}", stan_file], check=True)
    bridge = Path(__file__).parent / "interop" / "stan_bridge.cpp"
    cpp.write_text(cpp.read_text() + bridge.read_text())
    version = [int(part) for part in bridgestan.__version__.split(".")]
    flags = ["-w", "-O0", "-std=c++17", "-fPIC", "-shared", "-D_REENTRANT", "-DSTAN_THREADS"]
    flags += [
        f"-DBS_{name}={number}"
        for name, number in zip(("MAJOR", "MINOR", "PATCH"), version, strict=True)
    ]
    paths = [f"-I{stan / 'include'}", cpp, "-o", library, f"-L{stan / 'lib'}", "-ltbb"]
    subprocess.run(["g++", *flags, *paths, f"-Wl,-rpath,{stan / 'lib'}"], check=True)
