"""Dependencies point downward only, and the core touches no clock, file, socket or randomness."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "barnabas"

# Each layer may import the layers before it, and itself.
LAYERS = [
    "seams",
    "streams",
    "wire",
    "record",
    "config",
    "delayed",
    "log",
    "raft",
    "metadata",
    "controller",
    "replica",
    "coordinator",
    "api",
    "server",
    "client",
    "spark",
    "cli",
    "testing",
    "sim",
]
# The clients know the wire and the records, not the broker; commands start brokers and read logs.
ALLOWED = {layer: set(LAYERS[: LAYERS.index(layer) + 1]) for layer in LAYERS}
ALLOWED["client"] = {"seams", "streams", "wire", "record", "client"}
# The pipeline knows the clients, not the broker.
ALLOWED["spark"] = {"wire", "record", "config", "client", "spark"}
# The quorum's log view and the image know each other's records; the coordinators write through an
# interface that is handed in and never see the log, the controller or the replicas.
ALLOWED["coordinator"] = {"seams", "wire", "record", "config", "delayed", "metadata", "coordinator"}
ALLOWED["metadata"] = {"wire", "record", "config", "metadata"}
# A simulation runs nodes and clients, not the commands and not Spark.
ALLOWED["sim"] -= {"spark", "cli", "testing"}
ALLOWED["config"] = {"config"}
ALLOWED["delayed"] = {"delayed"}
ALLOWED["wire"] = {"wire"}

CORE = ["wire", "record", "config", "delayed", "raft", "metadata", "controller", "replica"]
CORE += ["coordinator", "api"]
WORLD = {
    "time",
    "socket",
    "random",
    "asyncio",
    "threading",
    "subprocess",
    "tempfile",
    "shutil",
    "uuid",
}
# Types and futures are no contact with the world.
HARMLESS = {}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.stat().st_size)


def layer_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            if node.module == "barnabas":
                for alias in node.names:
                    yield f"barnabas.{alias.name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_layer_imports_only_layers_below_it(path: Path) -> None:
    layer = layer_of(path)
    if layer == "__init__":
        return
    assert layer in ALLOWED, f"{path} is in no known layer"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "barnabas" and len(parts) > 1:
            assert parts[1] in ALLOWED[layer], f"{layer} must not import {name}"


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if layer_of(path) in CORE],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_the_core_touches_nothing_of_the_world(path: Path) -> None:
    relative = str(path.relative_to(SOURCE))
    for name in imports(path):
        top = name.split(".")[0]
        if (relative, top) not in HARMLESS:
            assert top not in WORLD, f"{relative} imports {name}"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "open", f"{relative} opens a file"
