"""The files of a partition's log: its segments in order, its epochs and its producers' snapshots.

The last segment is active, the others are sealed. Segments join at the end (`roll`), go by being
renamed and later removed (`doom`), or are replaced by what compaction made of them. Every name given
or taken in the directory raises its version, so that whoever makes the log durable knows when the
directory itself must be synced.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.config.topic import LogConfig
from barnabas.log import file_names
from barnabas.log.recovery import LoadedLog
from barnabas.log.segment import OpenSegments, Segment
from barnabas.seams import Disk, Randomness


class LocalLog:
    __slots__ = (
        "_active",
        "_bases",
        "_directory_synced",
        "_directory_version",
        "_disk",
        "_doomed",
        "_has_aborted",
        "_older",
        "_open_segments",
        "_randomness",
        "_recent",
        "_segments",
        "cleaning",
        "config",
        "directory",
        "epochs",
        "log_end_offset",
        "name",
        "on_roll",
        "parent_directory",
        "partition",
        "producers",
        "snapshots",
        "topic",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        loaded: LoadedLog,
        *,
        open_segments: OpenSegments | None,
        randomness: Randomness | None,
    ) -> None:
        self._disk = disk
        self.config = config
        self.directory = directory
        self.parent_directory, _, self.name = directory.rpartition("/")
        parsed = file_names.parse_partition_directory(self.name)
        self.topic, self.partition = parsed[:2] if parsed else (self.name, 0)
        self._open_segments = OpenSegments() if open_segments is None else open_segments
        self._randomness = randomness
        self._segments = loaded.segments
        self._active = self._segments[-1]
        self._active.jitter_ms = self._jitter_ms()
        self._bases = [segment.base_offset for segment in self._segments]
        self._has_aborted = False
        for segment in self._segments:
            segment.open_segments = self._open_segments
            self._has_aborted = self._has_aborted or not segment.transaction_index.is_empty
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.snapshots = loaded.snapshots
        self.log_end_offset = loaded.log_end_offset
        self.on_roll: Callable[[], object] | None = None
        self.cleaning = False
        # Where the last batches lie in the active segment, by their base offsets.
        self._recent: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._doomed: list[tuple[int, Segment]] = []
        self._directory_version = 0
        self._directory_synced = 0

    @property
    def segments(self) -> list[Segment]:
        """All segments, oldest first; the last one is appended to. Do not change the list."""
        return self._segments

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def is_future(self) -> bool:
        """Whether it is a copy that waits to take a partition's place."""
        return self.directory.endswith(file_names.FUTURE_DIRECTORY)

    # -- a new segment

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Seal the active segment and start a new one, named after the log's end: so a gap between
        two segments that were never cleaned tells that something was lost. Only a follower of a
        compacted log can meet a gap that no segment can span, and names its `base_offset`."""
        sealed = self._active
        if base_offset is None:
            base_offset = self.log_end_offset
        if not sealed.size:
            return sealed
        sealed.seal()
        self.snapshots.write(base_offset, self.producers)
        self._start_segment(base_offset, now_ms)
        if self.on_roll is not None:
            self.on_roll()
        return self._active

    def extend_to(self, offset: int, now_ms: int) -> None:
        """End at `offset` although there is nothing up to it: in the log that this one is a copy of,
        compaction took it all."""
        assert offset >= self.log_end_offset
        self._active.seal()
        self.snapshots.write(offset, self.producers)
        self._start_segment(offset, now_ms)
        self.log_end_offset = offset

    def _start_segment(self, base_offset: int, now_ms: int) -> None:
        config = self.config
        segment = Segment.create(
            self._disk,
            self.directory,
            base_offset,
            now_ms=now_ms,
            jitter_ms=self._jitter_ms(),
            preallocate_bytes=config.segment_size if config.preallocate else 0,
        )
        segment.open_segments = self._open_segments
        self._open_segments.opened(segment)
        self._directory_version += 1
        self._segments.append(segment)
        self._bases.append(base_offset)
        self._active = segment
        self._recent = {}
        self._older = {}

    def _jitter_ms(self) -> int:
        limit_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if limit_ms <= 0 or self._randomness is None:
            return 0
        return self._randomness.randrange(limit_ms)

    # -- segments that go

    def doom(self, segments: list[Segment], now_ms: int) -> None:
        """Mark files as deleted; `take_doomed` gives them after `file.delete.delay.ms`."""
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in segments:
            segment.release()
            segment.change_suffix(file_names.DELETED)
            self.snapshots.remove(segment.base_offset)
            self._doomed.append((due_ms, segment))
        self._directory_version += 1

    def take_doomed(self, now_ms: int) -> list[Segment]:
        """The segments whose files may now be removed; the caller does it."""
        if not self._doomed:
            return []
        due = [segment for due_ms, segment in self._doomed if due_ms <= now_ms]
        self._doomed = [entry for entry in self._doomed if entry[0] > now_ms]
        return due

    def _discard(self, segment: Segment) -> None:
        segment.remove_files()
        self._open_segments.forget(segment)
        self.snapshots.remove(segment.base_offset)

    def replace_segments(self, old: list[Segment], new: list[Segment], now_ms: int) -> None:
        """Put cleaned segments, complete and synced under their `.cleaned` names, in the place of
        those they were made from. After a crash in between, recovery finishes or undoes it by the
        names, which a file system keeps in the order in which they were given."""
        slot = self._segments.index(old[0])
        for segment in reversed(new):
            segment.change_suffix(file_names.SWAP)
        kept = {segment.base_offset for segment in new}
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in old:
            segment.release()
            segment.change_suffix(file_names.DELETED)
            if segment.base_offset not in kept:
                self.snapshots.remove(segment.base_offset)
            self._doomed.append((due_ms, segment))
        for segment in new:
            segment.change_suffix("")
            segment.open_segments = self._open_segments
        self._directory_version += 1
        self._segments[slot : slot + len(old)] = new
        self._bases = [segment.base_offset for segment in self._segments]

    # -- letting go

    def moved(self, directory: str) -> None:
        """The partition's directory was renamed."""
        self.directory = directory
        for segment in self._segments:
            segment.moved(directory)
        self.snapshots.moved(directory)
        self.epochs.moved(f"{directory}/{file_names.LEADER_EPOCH_CHECKPOINT}")

    def release(self) -> None:
        """Let all files go without writing anything more than what waits in memory."""
        for segment in self._segments:
            segment.release()

    def abandon(self) -> None:
        """Let all files go and write nothing: the directory failed, or the end is not orderly."""
        for segment in self._segments:
            segment.abandon()
