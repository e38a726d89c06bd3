"""The disk that can lose power, under the name that tests know it by."""

from barnabas.sim.disk import Inode, SimulatedDisk, SimulatedFile

__all__ = ["Inode", "SimulatedDisk", "SimulatedFile"]
