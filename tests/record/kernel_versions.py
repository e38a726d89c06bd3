"""Both versions of the kernels: the one that is imported, and its source, run as plain Python."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from barnabas.record import kernels


def interpreted(compiled: ModuleType) -> Any:
    """The source of a kernel, run as on a machine without Cython."""
    name = compiled.__name__.rpartition(".")[2]
    source = Path(str(compiled.__file__)).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"cython": None}):
        spec.loader.exec_module(module)
    return module


INTERPRETED: Any = interpreted(kernels)
IMPORTED: Any = kernels
VERSIONS = [IMPORTED, INTERPRETED] if kernels.COMPILED else [INTERPRETED]
VERSION_NAMES = ["compiled", "interpreted"] if kernels.COMPILED else ["interpreted"]
