"""BrokerRegistration: a starting broker introduces itself to the controller.

Version 1 marks a broker that migrates from ZooKeeper, 2 adds log directories, 3 the epoch before
a clean shutdown, 4 can carry features whose lowest version is 0.
"""

from __future__ import annotations

from barnabas.wire.api_keys import ApiKey
from barnabas.wire.fields import array, boolean, int16, int32, int64, string, uint16, uuid
from barnabas.wire.message import Message, Struct


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class BrokerRegistrationRequest(Message):
    API_KEY = ApiKey.BROKER_REGISTRATION
    VERSIONS = (0, 4)
    FLEXIBLE = (0, 4)

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable=True)
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "2+", ignorable=True)
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message):
    API_KEY = ApiKey.BROKER_REGISTRATION
    VERSIONS = (0, 4)
    FLEXIBLE = (0, 4)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
