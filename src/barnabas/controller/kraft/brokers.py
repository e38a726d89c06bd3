"""Brokers: registering, fencing and unfencing them, shutting them down in order.

A broker registers under its id with a new incarnation each time it starts. The offset of the
registration becomes its epoch, by which every later word of an earlier incarnation is recognised as
old. It is fenced (known, but given nothing to do) until it says that it has caught up with the
metadata up to its own registration.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from barnabas.controller.kraft.decision import Decision
from barnabas.controller.kraft.directories import directories_failed
from barnabas.controller.kraft.fencing import (
    broker_left,
    broker_lost_records,
    broker_returned,
    leads_any,
)
from barnabas.metadata.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORY_ASSIGNMENT_LEVEL,
    METADATA_VERSION,
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
from barnabas.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
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
    from barnabas.controller.kraft.heartbeats import Heartbeats
    from barnabas.wire.message import Message

_FENCE, _UNFENCE, _IN_CONTROLLED_SHUTDOWN = 1, -1, 1


def register_broker(
    view: View, request: BrokerRegistrationRequest, heartbeats: Heartbeats
) -> Decision[BrokerRegistrationResponse]:
    _check_registration(view, request)
    level = view.image.features.metadata_version
    present = view.image.brokers.get(request.broker_id)
    epoch, fenced, stopping = view.next_offset, True, False
    records: list[Message] = []
    if present is not None and present.incarnation_id == request.incarnation_id:
        epoch, fenced, stopping = present.epoch, present.fenced, present.in_controlled_shutdown
    else:
        if present is not None and heartbeats.has_session(
            present.broker_id, present.epoch, view.monotonic_ms
        ):
            raise ApiError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently "
                "restarted this should self-resolve once the heartbeat manager expires the "
                "broker's session.",
            )
        # The end of its logs counts only if it stopped in order since its last registration.
        clean = present is not None and present.epoch == request.previous_broker_epoch
        left = broker_left if clean or not view.elr_enabled else broker_lost_records
        records += left(view, request.broker_id)
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
        fenced=fenced,
        in_controlled_shutdown=stopping,
        directories=tuple(request.log_dirs),
    )
    records.append(broker_record(registration, level))
    return Decision(records, BrokerRegistrationResponse(broker_epoch=epoch))


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


def heartbeat_broker(
    view: View, request: BrokerHeartbeatRequest, heartbeats: Heartbeats
) -> Decision[BrokerHeartbeatResponse]:
    """What a broker reports of itself decides whether it serves, stands aside or may go."""
    broker = view.registered(request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= heartbeats.registered_offset(broker)
    state = _next_state(view, broker, request, heartbeats, caught_up)
    records: list[Message] = []
    if state is BrokerState.UNFENCED:
        if broker.fenced:
            records = unfence_records(view, broker)
    elif state is BrokerState.CONTROLLED_SHUTDOWN:
        if not broker.in_controlled_shutdown:
            records.append(_change(broker, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN))
        records += broker_left(view, broker.broker_id)
    elif not broker.fenced:
        records = fence_records(view, broker)
    records += directories_failed(view, broker, request.offline_log_dirs)
    cordoned = request.cordoned_log_dirs
    if (
        cordoned is not None
        and view.level >= CORDONED_DIRECTORIES_LEVEL
        and tuple(cordoned) != (broker.cordoned_directories or ())
    ):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.epoch,
                cordoned_log_dirs=list(cordoned),
            )
        )
    response = BrokerHeartbeatResponse(
        is_caught_up=caught_up,
        is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, response)


class BrokerState(Enum):
    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def _next_state(
    view: View,
    broker: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    heartbeats: Heartbeats,
    caught_up: bool,
) -> BrokerState:
    if broker.fenced:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        ready = caught_up and not request.want_fence
        return BrokerState.UNFENCED if ready else BrokerState.FENCED
    if broker.in_controlled_shutdown:
        # It stays until its partitions are elsewhere and those who lead them now know it.
        if leads_any(view, broker.broker_id):
            return BrokerState.CONTROLLED_SHUTDOWN
        known = heartbeats.may_shut_down(view.image, broker.broker_id)
        return BrokerState.SHUTDOWN_NOW if known else BrokerState.CONTROLLED_SHUTDOWN
    if request.want_fence:
        return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
    if request.want_shut_down:
        leads = leads_any(view, broker.broker_id)
        return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
    return BrokerState.UNFENCED


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
        *broker_returned(view, broker.broker_id),
    ]


def fence_records(view: View, broker: BrokerRegistration) -> list[Message]:
    return [*broker_left(view, broker.broker_id), _change(broker, fenced=_FENCE)]


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
        *broker_lost_records(view, broker.broker_id),
        UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch),
    ]
    return Decision(records, UnregisterBrokerResponse(error_message=None))


def register_controller(
    view: View, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    if view.level < CONTROLLER_REGISTRATION_LEVEL:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    features = {each.name: each for each in request.features}
    for name, finalized in view.image.features.finalized_levels.items():
        feature = features.get(name)
        if feature is not None and not (
            feature.min_supported_version <= finalized <= feature.max_supported_version
        ):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the controller does not support finalized version "
                f"{finalized} of {name}. The controller wants a version between "
                f"{feature.min_supported_version} and {feature.max_supported_version}, inclusive.",
            )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=each.name,
                host=each.host,
                port=each.port,
                security_protocol=each.security_protocol,
            )
            for each in request.listeners
        ],
        features=[
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse(error_message=None))
