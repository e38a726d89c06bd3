"""Kafka's error codes, and the one exception that means "answer this to the peer".

Every code knows whether a client may simply try again, and whether it should first refresh what it
knows of the cluster. `ApiError` is raised anywhere below an API handler and becomes an error code
in the response; it never means that something is wrong with this node.
"""

from __future__ import annotations

from enum import IntEnum

RETRIABLE = 1
STALE_METADATA = 2


class ErrorCode(IntEnum):
    """An error code with what a client may do about it and a sentence for people."""

    message: str
    retriable: bool
    invalidates_metadata: bool

    def __new__(cls, code: int, message: str, advice: int = 0) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.message = message
        member.retriable = advice >= RETRIABLE
        member.invalidates_metadata = advice >= STALE_METADATA
        return member

    UNKNOWN_SERVER_ERROR = -1, "The server met an unexpected error while processing the request."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = (
        1,
        "The requested offset is not within the range of offsets the server holds.",
    )
    CORRUPT_MESSAGE = (
        2,
        "The message failed its CRC check, exceeds the valid size, has a null key for a "
        "compacted topic, or is otherwise corrupt.",
        RETRIABLE,
    )
    UNKNOWN_TOPIC_OR_PARTITION = (
        3,
        "This server does not host this topic-partition.",
        STALE_METADATA,
    )
    INVALID_FETCH_SIZE = 4, "The requested fetch size is invalid."
    LEADER_NOT_AVAILABLE = (
        5,
        "There is no leader for this topic-partition: an election is under way.",
        STALE_METADATA,
    )
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "This node is not the leader of the partition, or for a fetch, not a replica of it.",
        STALE_METADATA,
    )
    REQUEST_TIMED_OUT = 7, "The request timed out.", RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = (
        9,
        "The replica is not available for the requested topic-partition.",
        STALE_METADATA,
    )
    MESSAGE_TOO_LARGE = (
        10,
        "The request included a message larger than the max message size the server will accept.",
    )
    STALE_CONTROLLER_EPOCH = 11, "The controller moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata field of the offset request was too large."
    NETWORK_EXCEPTION = (
        13,
        "The server disconnected before a response was received.",
        STALE_METADATA,
    )
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        "The coordinator is loading and hence cannot process requests.",
        RETRIABLE,
    )
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", RETRIABLE
    NOT_COORDINATOR = 16, "This is not the correct coordinator.", RETRIABLE
    INVALID_TOPIC_EXCEPTION = (
        17,
        "The request attempted to perform an operation on an invalid topic.",
    )
    RECORD_LIST_TOO_LARGE = (
        18,
        "The request included message batches larger than the configured segment size on "
        "the server.",
    )
    NOT_ENOUGH_REPLICAS = 19, "There are fewer in-sync replicas than required.", RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "The messages are in the log, but with fewer in-sync replicas than required.",
        RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "Produce request specified an invalid value for required acks."
    ILLEGAL_GENERATION = 22, "The given generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        "The member's protocol type or its protocols are inconsistent with those of the group.",
    )
    INVALID_GROUP_ID = 24, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator is not aware of this member."
    INVALID_SESSION_TIMEOUT = (
        26,
        "The session timeout is outside the range that the broker allows "
        "(group.min.session.timeout.ms to group.max.session.timeout.ms).",
    )
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing, so a rejoin is needed."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The committing offset data size is not valid."
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, "The timestamp of the message is out of acceptable range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not support the requested SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request is not valid in the current SASL state."
    UNSUPPORTED_VERSION = 35, "The version of the API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "A topic with this name already exists."
    INVALID_PARTITIONS = 37, "The number of partitions is below 1."
    INVALID_REPLICATION_FACTOR = (
        38,
        "The replication factor is below 1 or larger than the number of available brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "The replica assignment is invalid."
    INVALID_CONFIG = 40, "The configuration is invalid."
    NOT_CONTROLLER = 41, "This is not the correct controller for this cluster.", RETRIABLE
    INVALID_REQUEST = (
        42,
        "The request is malformed, contradicts itself or is incompatible with the server's "
        "version.",
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        "The message format on the broker does not support the request.",
    )
    POLICY_VIOLATION = 44, "The request parameters do not satisfy the configured policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The broker received an out of order sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The broker received a duplicate sequence number."
    INVALID_PRODUCER_EPOCH = 47, "The producer attempted to produce with an old epoch."
    INVALID_TXN_STATE = 48, "The producer attempted a transactional operation in an invalid state."
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        "The producer attempted to use a producer id which is not currently assigned to its "
        "transactional id.",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        "The transaction timeout is larger than the maximum value allowed by the broker "
        "(transaction.max.timeout.ms).",
    )
    CONCURRENT_TRANSACTIONS = (
        51,
        "The producer attempted to update a transaction while another concurrent operation "
        "on it was ongoing.",
        RETRIABLE,
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        "The transaction coordinator that sent this marker is no longer the current one.",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional id authorization failed."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, "The broker did not attempt to execute this operation."
    KAFKA_STORAGE_ERROR = (
        56,
        "Disk error when trying to access log file on the disk.",
        STALE_METADATA,
    )
    LOG_DIR_NOT_FOUND = 57, "The user-specified log directory is not found in the broker config."
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = (
        59,
        "The broker has no state for this producer id: its records may have been removed by "
        "retention.",
    )
    REASSIGNMENT_IN_PROGRESS = 60, "A partition reassignment is in progress."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation token feature is not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, "Delegation token is not found on server."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        "Specified principal is not a valid owner or renewer of the token.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "Delegation token requests are not allowed on plaintext or one-way SSL channels, "
        "nor on channels authenticated by such a token.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "Delegation token authorization failed."
    DELEGATION_TOKEN_EXPIRED = 66, "Delegation token is expired."
    INVALID_PRINCIPAL_TYPE = 67, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, "The group id does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session id was not found.", RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session epoch is invalid.", RETRIABLE
    LISTENER_NOT_FOUND = (
        72,
        "The leader has no listener that matches the one this request came in on.",
        STALE_METADATA,
    )
    TOPIC_DELETION_DISABLED = 73, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = (
        74,
        "The leader epoch in the request is older than the epoch on the broker.",
        STALE_METADATA,
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        "The leader epoch in the request is newer than the epoch on the broker.",
        RETRIABLE,
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        "The requesting client does not support the compression type of the partition.",
    )
    STALE_BROKER_EPOCH = 77, "Broker epoch has changed."
    OFFSET_NOT_AVAILABLE = (
        78,
        "The leader's high watermark has not caught up since its election, so its offsets "
        "cannot be known yet.",
        RETRIABLE,
    )
    MEMBER_ID_REQUIRED = (
        79,
        "The group member needs a valid member id before actually entering the group.",
    )
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader was not available.", STALE_METADATA
    GROUP_MAX_SIZE_REACHED = 81, "The group has reached its maximum size."
    FENCED_INSTANCE_ID = (
        82,
        "Another consumer with the same group.instance.id took this member's place: it is fenced.",
    )
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (
        83,
        "Eligible topic partition leaders are not available.",
        STALE_METADATA,
    )
    ELECTION_NOT_NEEDED = (
        84,
        "Leader election is not needed for this topic partition.",
        STALE_METADATA,
    )
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No partition reassignment is in progress."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        "The group is actively subscribed to this topic, so its offsets cannot be deleted.",
    )
    INVALID_RECORD = 87, "The record failed validation on the broker and hence will be rejected."
    UNSTABLE_OFFSET_COMMIT = 88, "There are unstable offsets that need to be cleared.", RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "The throttling quota has been exceeded.", RETRIABLE
    PRODUCER_FENCED = 90, "A newer producer with the same transactional id fences this one."
    RESOURCE_NOT_FOUND = 91, "A request referred to a resource that does not exist."
    DUPLICATE_RESOURCE = 92, "A request named the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the criteria for acceptability."
    INCONSISTENT_VOTER_SET = (
        94,
        "The sender or the recipient is not among the voters that the other side expects.",
    )
    INVALID_UPDATE_VERSION = 95, "The given update version is invalid."
    FEATURE_UPDATE_FAILED = (
        96,
        "The features could not be updated because of an unexpected server error.",
    )
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        "The principal of a forwarded request could not be read: it has another format.",
    )
    SNAPSHOT_NOT_FOUND = 98, "The requested snapshot was not found."
    POSITION_OUT_OF_RANGE = (
        99,
        "The position is not at or above zero and below the size of the snapshot.",
    )
    UNKNOWN_TOPIC_ID = 100, "This server does not host this topic ID.", STALE_METADATA
    DUPLICATE_BROKER_REGISTRATION = 101, "This broker id is already in use."
    BROKER_ID_NOT_REGISTERED = 102, "The given broker id is not registered."
    INCONSISTENT_TOPIC_ID = (
        103,
        "The log's topic id does not match the topic id in the request.",
        STALE_METADATA,
    )
    INCONSISTENT_CLUSTER_ID = (
        104,
        "The cluster id in the request does not match that of the server.",
    )
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The transactional id could not be found."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "The fetch session met topic ids that are inconsistent with earlier requests.",
        RETRIABLE,
    )
    INELIGIBLE_REPLICA = 107, "The new in-sync set contains at least one ineligible replica."
    NEW_LEADER_ELECTED = (
        108,
        "The partition was altered, but leadership moved away from the requesting broker.",
    )
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The requested offset is moved to tiered storage."
    FENCED_MEMBER_EPOCH = (
        110,
        "The member epoch is fenced by the group coordinator: the member must abandon its "
        "partitions and rejoin.",
    )
    UNRELEASED_INSTANCE_ID = (
        111,
        "The instance id is still used by another member of the group, which must leave first.",
    )
    UNSUPPORTED_ASSIGNOR = 112, "The assignor, or its version range, is not supported by the group."
    STALE_MEMBER_EPOCH = (
        113,
        "The member epoch is stale: the member must retry after its next heartbeat.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, "The request was sent to an endpoint of the wrong type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This endpoint type is not supported yet."
    UNKNOWN_CONTROLLER_ID = 116, "This controller id is not known."
    UNKNOWN_SUBSCRIPTION_ID = (
        117,
        "The subscription id is not known or is stale: the client must ask for its "
        "subscription again.",
    )
    TELEMETRY_TOO_LARGE = 118, "The pushed metrics are larger than the broker accepts."
    INVALID_REGISTRATION = (
        119,
        "The controller has considered the broker registration to be invalid.",
    )
    TRANSACTION_ABORTABLE = (
        120,
        "The server met an error with the transaction: the client can abort it and continue.",
    )
    INVALID_RECORD_STATE = (
        121,
        "The record state is invalid: delivery of the record could not be acknowledged.",
    )
    SHARE_SESSION_NOT_FOUND = 122, "The share session was not found.", RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session epoch is invalid.", RETRIABLE
    FENCED_STATE_EPOCH = (
        124,
        "The share coordinator rejected the request because the share-group state epoch did "
        "not match.",
    )
    INVALID_VOTER_KEY = 125, "The voter key does not match the receiving replica's key."
    DUPLICATE_VOTER = 126, "The voter is already part of the set of voters."
    VOTER_NOT_FOUND = 127, "The voter is not part of the set of voters."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = (
        129,
        "Client metadata is stale: the client should bootstrap again to find the cluster.",
    )
    STREAMS_INVALID_TOPOLOGY = 130, "The supplied topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The supplied topology epoch is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, "The supplied topology epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, "The limit of share sessions has been reached.", RETRIABLE

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The member for a code from the wire; codes of the future are UNKNOWN_SERVER_ERROR."""
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)


_BY_CODE: dict[int, ErrorCode] = {int(member): member for member in ErrorCode}


class ApiError(Exception):
    """Answer this code, with this message, to the peer that asked."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.message if message is None else message
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
