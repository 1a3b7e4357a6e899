"""Kafka's error codes: their names, whether a client may try again, and what each one means.

Codes and names are Apache Kafka 4.3's; `retriable` is what its Java client does with the code. The sentences
are this project's own: they go where a response has an error message and nobody had a better one.
"""

from __future__ import annotations

from enum import IntEnum


class Error(IntEnum):
    """An error code, int16 on the wire. `Error.X` is an int; `.retriable` and `.sentence` say more."""

    _value_: int
    retriable: bool
    sentence: str

    def __new__(cls, code: int, retriable: bool, sentence: str) -> Error:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.sentence = sentence
        return member

    UNKNOWN_SERVER_ERROR = -1, False, "Something failed inside the server; its log says more."
    NONE = 0, False, ""
    OFFSET_OUT_OF_RANGE = 1, False, "The offset lies outside what the partition holds."
    CORRUPT_MESSAGE = 2, True, "The batch is damaged: its CRC, its size or its structure is wrong."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "There is no such topic or partition here."
    INVALID_FETCH_SIZE = 4, False, "The fetch size makes no sense."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, True, "This broker does not serve the partition; refresh the metadata."
    REQUEST_TIMED_OUT = 7, True, "The request was not finished in its time."
    BROKER_NOT_AVAILABLE = 8, False, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, True, "This replica of the partition cannot be used now."
    MESSAGE_TOO_LARGE = 10, False, "The batch is larger than max.message.bytes allows."
    STALE_CONTROLLER_EPOCH = 11, False, "Another controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, False, "The metadata string of the offset commit is too long."
    NETWORK_EXCEPTION = 13, True, "The connection broke before the answer came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "There is no coordinator at the moment."
    NOT_COORDINATOR = 16, True, "This broker does not coordinate that group or transaction."
    INVALID_TOPIC_EXCEPTION = 17, False, "The topic name is not legal, or the topic cannot be used this way."
    RECORD_LIST_TOO_LARGE = 18, False, "The batch is larger than a whole segment may be."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than min.insync.replicas asks for."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "The batch was written, but to too few replicas."
    INVALID_REQUIRED_ACKS = 21, False, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, False, "The group has moved on to another generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "The member shares no protocol with the rest of the group."
    INVALID_GROUP_ID = 24, False, "The group id is not legal."
    UNKNOWN_MEMBER_ID = 25, False, "The group does not know this member."
    INVALID_SESSION_TIMEOUT = 26, False, "The session timeout lies outside what this broker allows."
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The offset commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "This user may not do that to the topic."
    GROUP_AUTHORIZATION_FAILED = 30, False, "This user may not use the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "This user may not do that to the cluster."
    INVALID_TIMESTAMP = 32, False, "A record's timestamp is too far from the broker's clock."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, False, "The request does not belong at this point of the SASL exchange."
    UNSUPPORTED_VERSION = 35, False, "This version of the API is not served."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of that name exists already."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not legal."
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "The replication factor is below 1 or above the number of brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The replica assignment is not legal."
    INVALID_CONFIG = 40, False, "A configuration value is not legal."
    NOT_CONTROLLER = 41, True, "This broker is not the controller."
    INVALID_REQUEST = 42, False, "The request breaks a rule of the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        False,
        "The message format is too old for this; only batches of magic 2 are served.",
    )
    POLICY_VIOLATION = 44, False, "A policy of this broker forbids it."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "The producer's sequence number leaves a gap."
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence number was used before."
    INVALID_PRODUCER_EPOCH = 47, False, "The producer's epoch is older than one already seen."
    INVALID_TXN_STATE = 48, False, "The transaction's state does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, False, "The producer id does not belong to that transactional id."
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "The transaction timeout is above transaction.max.timeout.ms, or not above zero.",
    )
    CONCURRENT_TRANSACTIONS = 51, True, "Another operation on the same transaction has not finished."
    TRANSACTION_COORDINATOR_FENCED = 52, False, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "This user may not use the transactional id."
    SECURITY_DISABLED = 54, False, "Security is switched off on this broker."
    OPERATION_NOT_ATTEMPTED = 55, False, "Not tried, because another part of the same request failed."
    KAFKA_STORAGE_ERROR = 56, True, "The broker could not read or write its disk."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "The credentials were refused."
    UNKNOWN_PRODUCER_ID = 59, False, "Nothing is known of this producer id any more."
    REASSIGNMENT_IN_PROGRESS = 60, False, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        False,
        "The user neither owns the delegation token nor may renew it.",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "Delegation tokens cannot be managed over this kind of connection.",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "This user may not manage the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "That type of principal is not supported."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "The fetch session is gone; start a new one."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The fetch session is at another epoch."
    LISTENER_NOT_FOUND = 72, True, "The leader has no listener of the name the request came in by."
    TOPIC_DELETION_DISABLED = 73, False, "Deleting topics is switched off."
    FENCED_LEADER_EPOCH = 74, True, "The leader epoch of the request is older than the partition's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The leader epoch of the request is newer than the partition's."
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "The compression type is not known, or too new for this version of the request.",
    )
    STALE_BROKER_EPOCH = 77, False, "The broker has registered again since."
    OFFSET_NOT_AVAILABLE = 78, True, "The new leader does not know the high watermark yet."
    MEMBER_ID_REQUIRED = 79, False, "Join again with the member id of this answer."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, False, "Another member has taken over this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica may become leader now."
    ELECTION_NOT_NEEDED = 84, True, "The partition has the leader it should have."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "The group is subscribed to the topic, so its offsets stay."
    INVALID_RECORD = 87, False, "A record of the batch was refused."
    UNSTABLE_OFFSET_COMMIT = 88, True, "An open transaction has offsets that are not decided yet."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota is used up; try later."
    PRODUCER_FENCED = 90, False, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, False, "The request names something that does not exist."
    DUPLICATE_RESOURCE = 92, False, "The request names the same thing twice."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential does not meet the rules."
    INCONSISTENT_VOTER_SET = 94, False, "Sender and receiver do not agree on who votes."
    INVALID_UPDATE_VERSION = 95, False, "That version of the feature cannot be set."
    FEATURE_UPDATE_FAILED = 96, False, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "There is no topic with that id here."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "Another broker uses this node id."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker is registered under this node id."
    INCONSISTENT_TOPIC_ID = 103, True, "The topic has another id than the request says: it was made anew."
    INCONSISTENT_CLUSTER_ID = 104, False, "The request was meant for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "The fetch session mixes topic names and topic ids."
    INELIGIBLE_REPLICA = 107, False, "One of the replicas may not be in sync."
    NEW_LEADER_ELECTED = 108, False, "The change was made, and the leader changed with it."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset is in tiered storage now."
    FENCED_MEMBER_EPOCH = 110, False, "The member was fenced: give up its partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, False, "Another member still holds this group.instance.id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group has no such assignor."
    STALE_MEMBER_EPOCH = 113, False, "The member's epoch is old; heartbeat, then try again."
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request belongs to another kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "That kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no controller with that id."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription is not known or has changed."
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry is larger than the broker takes."
    INVALID_REGISTRATION = 119, False, "The broker's registration was refused."
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "The transaction cannot go on, but may be aborted and the id used again.",
    )
    INVALID_RECORD_STATE = 121, False, "The record is not in a state in which it can be acknowledged so."
    SHARE_SESSION_NOT_FOUND = 122, True, "The share session is gone; start a new one."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The share session is at another epoch."
    FENCED_STATE_EPOCH = 124, False, "The share group's state has a newer epoch."
    INVALID_VOTER_KEY = 125, False, "The voter's key is not this replica's."
    DUPLICATE_VOTER = 126, False, "The voter is a voter already."
    VOTER_NOT_FOUND = 127, False, "There is no such voter."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression cannot be read."
    REBOOTSTRAP_REQUIRED = 129, False, "The client's metadata is too old: start again from bootstrap.servers."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The Streams topology is not legal."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The epoch of the Streams topology is not legal."
    STREAMS_TOPOLOGY_FENCED = 132, False, "A newer Streams topology has taken over."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "There are as many share sessions as there may be."


_BY_CODE: dict[int, Error] = {int(error): error for error in Error}


def name(code: int) -> str:
    """Kafka's name of a code, for logs and metrics; a code Kafka does not have is shown as its number."""
    error = _BY_CODE.get(code)
    return error.name if error is not None else f"ERROR_{code}"


def retriable(code: int) -> bool:
    """Whether a client may send the same request again (False for a code Kafka does not have)."""
    error = _BY_CODE.get(code)
    return error is not None and error.retriable


def message(code: int) -> str | None:
    """One sentence on the code; None for NONE, as Kafka's responses have it."""
    error = _BY_CODE.get(code)
    if error is None:
        return f"Error {code} is not one of Kafka's."
    return error.sentence or None
