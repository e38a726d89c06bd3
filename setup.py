"""Compiled kernels. Everything else about the build is in pyproject.toml.

The kernels are ordinary Python modules that Cython can also compile. A missing compiler must never
stop an install, so every extension is optional and the same file is then used interpreted.
"""

from setuptools import Extension, setup

KERNELS = ["barnabas.record.kernels"]


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(name, ["src/" + name.replace(".", "/") + ".py"], optional=True)
        for name in KERNELS
    ]
    return cythonize(modules, language_level=3)


setup(ext_modules=extensions())
