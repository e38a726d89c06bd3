"""Compiled kernels. Everything else about the build is in pyproject.toml.

The kernels are ordinary Python modules that Cython can also compile. A missing compiler must never
stop an install, so every extension is optional and the same file is then used interpreted.
"""

from setuptools import Extension, setup

KERNELS = [
    "barnabas.record.kernels",
    "barnabas.client.kernels_producer",
    "barnabas.client.kernels_consumer",
]


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules: list[Extension] = cythonize(
        [Extension(name, ["src/" + name.replace(".", "/") + ".py"]) for name in KERNELS],
        language_level=3,
        include_path=["src"],
    )
    for module in modules:
        module.optional = True  # set last: cythonize does not keep it
    return modules


setup(ext_modules=extensions())
