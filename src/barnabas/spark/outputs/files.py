"""Small files beside a table's data, through Hadoop's file system, so that any place that Spark can
write to (a local directory, HDFS, an object store) works alike.

`create` is the atomic step of a commit: the text is written under another name, then renamed; a
rename to a name that is there fails. It is the rule by which Spark keeps its own checkpoints.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Listed(NamedTuple):
    path: str
    size: int
    modified_ms: int


class Files:
    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        assert jvm is not None
        configuration = spark._jsc.hadoopConfiguration()
        self._jvm = jvm
        self._hadoop: Any = jvm.org.apache.hadoop.fs
        self._root = self._hadoop.Path(root)
        self._system = self._root.getFileSystem(configuration)
        self.root = str(self._system.makeQualified(self._root).toString())
        self._context = self._hadoop.FileContext.getFileContext(
            self._hadoop.Path(self.root).toUri(), configuration
        )

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(self.root, path)

    def listing(self, directory: str) -> list[Listed]:
        """The files directly in a directory, by name."""
        return sorted(self._listed(directory, False))

    def walk(self, directory: str) -> list[Listed]:
        """All files below a directory, with paths from the root."""
        return sorted(self._listed(directory, True))

    def _listed(self, directory: str, deep: bool) -> list[Listed]:
        path = self._path(directory)
        if not self._system.exists(path):
            return []
        found = []
        iterator = self._system.listFiles(path, deep)
        while iterator.hasNext():
            status = iterator.next()
            name = str(status.getPath().toString()).removeprefix(self.root).lstrip("/")
            found.append(Listed(name, int(status.getLen()), int(status.getModificationTime())))
        return found

    def read(self, path: str) -> str:
        stream = self._system.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, path: str, text: str) -> bool:
        """Writes a file that is not there yet, whole or not at all; False if it is there."""
        draft = self._path(f"{path}.{uuid.uuid4().hex}.tmp")
        stream = self._system.create(draft, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self._system.exists(self._path(path)):
            self._system.delete(draft, False)
            return False
        none = self._hadoop.Options.Rename.NONE
        options = self._jvm.java.lang.reflect.Array.newInstance(none.getClass(), 1)
        options[0] = none
        try:
            self._context.rename(draft, self._path(path), options)
        except Exception as error:
            self._system.delete(draft, False)
            if "FileAlreadyExistsException" in str(error):
                return False
            raise
        return True

    def delete(self, path: str) -> None:
        self._system.delete(self._path(path), True)
