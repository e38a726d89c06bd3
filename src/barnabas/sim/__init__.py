"""Whole clusters in one process, on a virtual clock, network and disk, from one seed.

Nothing here is imported by a node. `python -m barnabas.sim --seed 7` replays a seed.
"""
