"""Both versions of the kernels: the one that is imported, and its source, run as plain Python."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import barnabas.record
from barnabas.record import kernels


def interpreted_kernels() -> ModuleType:
    source = Path(barnabas.record.__file__).with_name("kernels.py")
    spec = importlib.util.spec_from_file_location("interpreted_kernels", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INTERPRETED: Any = interpreted_kernels()
IMPORTED: Any = kernels
VERSIONS = [IMPORTED, INTERPRETED] if kernels.COMPILED else [INTERPRETED]
VERSION_NAMES = ["compiled", "interpreted"] if kernels.COMPILED else ["interpreted"]
