"""Brokers: registering, fencing and unfencing them, shutting them down in order.

A broker registers under its id with a new incarnation each time it starts. The offset of the
registration becomes its epoch, by which every later word of an earlier incarnation is recognised as
old. It is fenced (known, but given nothing to do) until it says that it has caught up with the
metadata up to its own registration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.controller.kraft.decision import Decision
from barnabas.controller.kraft.elections import (
    partitions_of_leaving_broker,
    partitions_of_returning_broker,
)
from barnabas.metadata.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from barnabas.metadata.image import BrokerRegistration, Listener
from barnabas.metadata.snapshot import broker_record
from barnabas.wire import uuids
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from barnabas.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from barnabas.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from barnabas.controller.kraft.decision import View
    from barnabas.wire.message import Message

_FENCE, _UNFENCE, _IN_CONTROLLED_SHUTDOWN = 1, -1, 1


def register_broker(
    view: View, request: BrokerRegistrationRequest
) -> Decision[BrokerRegistrationResponse]:
    _check_registration(view, request)
    level = view.image.features.metadata_version
    present = view.image.brokers.get(request.broker_id)
    epoch = view.next_offset
    if present is not None and present.incarnation_id == request.incarnation_id:
        epoch = present.epoch
    registration = BrokerRegistration(
        broker_id=request.broker_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        listeners=tuple(
            Listener(each.name, each.host, each.port, each.security_protocol)
            for each in request.listeners
        ),
        features={
            each.name: (each.min_supported_version, each.max_supported_version)
            for each in request.features
        },
        rack=request.rack,
        fenced=True,
        directories=tuple(request.log_dirs),
    )
    return Decision(
        [broker_record(registration, level)], BrokerRegistrationResponse(broker_epoch=epoch)
    )


def _check_registration(view: View, request: BrokerRegistrationRequest) -> None:
    def refuse(code: ErrorCode, message: str) -> ApiError:
        return ApiError(code, message)

    if request.cluster_id != view.cluster_id:
        raise refuse(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {view.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if request.is_migrating_zk_broker:
        raise refuse(
            ErrorCode.UNSUPPORTED_VERSION, "Controller does not support registering ZK brokers."
        )
    level = view.image.features.metadata_version
    if level >= DIRECTORY_ASSIGNMENT_LEVEL:
        if not request.log_dirs:
            raise refuse(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
        if any(uuids.is_reserved(each) for each in request.log_dirs):
            raise refuse(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
        if len(set(request.log_dirs)) != len(request.log_dirs):
            raise refuse(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
        for other in view.image.brokers.values():
            shared = set(other.directories) & set(request.log_dirs)
            if other.broker_id != request.broker_id and shared:
                raise refuse(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {other.broker_id} is already registered with directory "
                    f"{uuids.to_text(min(shared))}",
                )
    features = {each.name: each for each in request.features}
    if METADATA_VERSION not in features:
        raise refuse(
            ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'"
        )
    for name, finalized in view.image.features.finalized_levels.items():
        feature = features.get(name)
        if feature is None:
            continue
        if not feature.min_supported_version <= finalized <= feature.max_supported_version:
            raise refuse(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version "
                f"{finalized} of {name}. The broker wants a version between "
                f"{feature.min_supported_version} and {feature.max_supported_version}, inclusive.",
            )


def _registered(view: View, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    broker = view.image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}"
        )
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
        )
    return broker


def heartbeat_broker(
    view: View, request: BrokerHeartbeatRequest
) -> Decision[BrokerHeartbeatResponse]:
    """What a broker reports of itself decides whether it serves, stands aside or may go."""
    broker = _registered(view, request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= broker.epoch
    records: list[Message] = []
    fenced = broker.fenced
    may_go = False
    if request.want_shut_down:
        records, fenced = stop_records(view, broker)
        may_go = True
    elif request.want_fence:
        if not fenced:
            records = [*partitions_of_leaving_broker(view.image, broker.broker_id, view.config)]
            records.append(_change(broker, fenced=_FENCE))
            fenced = True
    elif fenced and caught_up:
        records = unfence_records(view, broker)
        fenced = False
    cordoned = request.cordoned_log_dirs
    if (
        cordoned is not None
        and view.image.features.metadata_version >= CORDONED_DIRECTORIES_LEVEL
        and tuple(cordoned) != broker.cordoned_directories
    ):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.epoch,
                cordoned_log_dirs=list(cordoned),
            )
        )
    response = BrokerHeartbeatResponse(
        is_caught_up=caught_up, is_fenced=fenced, should_shut_down=may_go
    )
    return Decision(records, response)


def _change(
    broker: BrokerRegistration, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def unfence_records(view: View, broker: BrokerRegistration) -> list[Message]:
    return [
        _change(broker, fenced=_UNFENCE),
        *partitions_of_returning_broker(view.image, broker.broker_id),
    ]


def stop_records(view: View, broker: BrokerRegistration) -> tuple[list[Message], bool]:
    """The records of an orderly stop, and that it is fenced afterwards."""
    if broker.fenced:
        return [], True
    records: list[Message] = []
    if not broker.in_controlled_shutdown:
        records.append(_change(broker, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN))
    records += partitions_of_leaving_broker(view.image, broker.broker_id, view.config)
    records.append(_change(broker, fenced=_FENCE))
    return records, True


def unregister_broker(
    view: View, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records: list[Message] = [
        *partitions_of_leaving_broker(view.image, broker.broker_id, view.config),
        UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch),
    ]
    return Decision(records, UnregisterBrokerResponse(error_message=None))


def register_controller(
    view: View,
    incarnation_id: bytes,
    listeners: Sequence[Listener],
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES,
) -> Decision[None]:
    if view.image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return Decision([], None)
    record = RegisterControllerRecord(
        controller_id=view.node_id,
        incarnation_id=incarnation_id,
        end_points=[
            ControllerEndpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in listeners
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in features.items()
        ],
    )
    return Decision([record], None)
