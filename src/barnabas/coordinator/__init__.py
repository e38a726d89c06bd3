"""Coordinators: state that lives in the partitions of an internal topic.

`runtime.py` owns the partitions this node leads, one shard each: it loads a shard from its log,
appends what the shard decides, replays it into the shard, and tells when it is committed. What a
shard is about is in the packages below; `group/` holds classic consumer groups and their offsets.
"""
