"""Partitions as this broker holds them: leadership, high watermark, reads and writes, fetch sessions."""
