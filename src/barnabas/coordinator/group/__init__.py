"""Classic consumer groups and committed offsets, kept in `__consumer_offsets`.

`coordinator.py` is the face to the API handlers. A shard (`shard.py`) holds the groups of one
partition: `joining.py`, `membership.py` and `rebalance.py` move the state machine of `state.py`,
over the data of `classic_group.py` and `member.py`; `offsets.py` keeps committed offsets.
`records.py` is the form in which all of it is written.
"""
