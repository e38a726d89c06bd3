"""A topic's settings as the rules that records are validated by."""

from __future__ import annotations

from barnabas.config.topic import LogConfig
from barnabas.record.batch import TimestampType
from barnabas.record.compression import Codec
from barnabas.record.validate import AppendOrigin, AppendRules

_CODECS = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "none": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def rules_for(config: LogConfig, name: str, origin: AppendOrigin) -> AppendRules:
    codec = _CODECS[config.compression_type]
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    log_append_time = config.message_timestamp_type == "LogAppendTime"
    return AppendRules(
        topic_partition=name,
        max_message_bytes=config.max_message_bytes,
        timestamp_type=(
            TimestampType.LOG_APPEND_TIME if log_append_time else TimestampType.CREATE_TIME
        ),
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        is_compacted=config.compact,
        codec=codec,
        compression_level=None if codec is None else levels.get(codec),
        max_decompressed_bytes=config.max_decompressed_message_bytes,
        origin=origin,
    )
