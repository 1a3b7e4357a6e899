package compat

import (
	"time"
)

// Library is a client as the cases use it. What ends by itself when the case does, a library gives to
// Context.Closing.
type Library interface {
	// Code is the server's error code, where the error is one of the server's.
	Code(err error) (int16, bool)
	Admin(*Context) Admin
	Producer(*Context, Producing) Producer
	// Reader reads assigned partitions of a topic.
	Reader(*Context, string, []int32, Reading) Reader
	Member(*Context, Membership) Member
}

// Header of a record; a nil value is null.
type Header struct {
	Key   string
	Value []byte
}

// Record as it is sent and as it comes back; nil is null.
type Record struct {
	Topic     string
	Partition int32 // to be sent: Any leaves it to the client
	Offset    int64
	Key       []byte
	Value     []byte
	Headers   []Header
	Time      time.Time // to be sent: zero is now
}

// Any partition.
const Any = -1

// Producing is how a producer is set; what is zero stands for the client's default, and acks=all.
type Producing struct {
	Codec      string
	Acks       string
	Idempotent bool
	BatchBytes int
	MaxBytes   int
	Linger     time.Duration
}

// Producer sends and waits for the acknowledgements.
type Producer interface {
	// Send gives the first failure. The records come back with Partition, Offset and Time as acknowledged.
	Send(...Record) ([]Record, error)
}

// Reading is how a reader is set. It begins at the beginning.
type Reading struct {
	Committed  bool
	FetchBytes int32
	From       int64 // a fixed offset; what is out of range is an error then
	Fixed      bool
}

// Reader of assigned partitions.
type Reader interface {
	// Poll gives what arrives within some 200 ms: perhaps nothing.
	Poll() ([]Record, error)
}

// Seeker is a reader that can go elsewhere.
type Seeker interface {
	Seek(partition int32, offset int64) error
}

// Pauser is a reader that can leave a partition out for a while.
type Pauser interface {
	Pause(partition int32)
	Resume(partition int32)
}

// Membership is how a member of a group is set.
type Membership struct {
	Group       string
	Topics      []string
	Pattern     string // instead of Topics
	Assignor    string // "range", "cooperative"; "" is the client's default
	Instance    string
	Session     time.Duration
	Refresh     time.Duration // of metadata
	AutoCommit  bool
	Latest      bool
	ClientID    string
	Cable       *Cable
	NewProtocol bool // KIP-848: the server shares partitions out
	Names       bool // a Naming is wanted; it lets go of partitions between two polls only
}

// Member of a group.
type Member interface {
	// Poll gives what arrives within some 200 ms: perhaps nothing.
	Poll() ([]Record, error)
	// Partitions that it has at present.
	Partitions() []int32
	// Changes of what it has, so far.
	Changes() int
	// Commit everything up to this record, and wait.
	Commit(Record) error
	Close()
}

// Naming is a member whose commits may say something of single deliveries of a queue topic.
type Naming interface {
	Member
	// CommitNaming commits this offset of a partition with metadata, and waits.
	CommitNaming(topic string, partition int32, offset int64, metadata string) error
}

// TopicSpec is a topic to be created.
type TopicSpec struct {
	Name         string
	Partitions   int32
	Replicas     int16
	Configs      map[string]string
	Assignment   map[int32][]int32
	ValidateOnly bool
}

// Topic as it is described. ID is empty where the client does not tell it.
type Topic struct {
	ID         string
	Partitions int
	Leader     int32
	InSync     int
}

// Config is one entry of a described resource.
type Config struct {
	Value   string
	Default bool
	Source  string
}

// Group as it is described.
type Group struct {
	State    string
	Assignor string
	Members  []GroupMember
}

// GroupMember of a described group.
type GroupMember struct {
	ClientID   string
	Instance   string
	Partitions int
}

// Commit is a committed offset.
type Commit struct {
	Offset   int64
	Metadata string
	Epoch    int32
}

// What Offset takes besides a time in milliseconds.
const (
	Latest       = -1
	Earliest     = -2
	MaxTimestamp = -3
)

// Admin is what every library can administer.
type Admin interface {
	Create(TopicSpec) error
	Topics() ([]string, error)
	Describe(topic string) (Topic, error)
	Delete(topic string) error
	AddPartitions(topic string, count int) error
	TopicConfigs(topic string) (map[string]Config, error)
	BrokerConfigs() (map[string]Config, error)
	// Offset of a time, or of Latest, Earliest, MaxTimestamp; -1 is none.
	Offset(topic string, partition int32, time int64) (int64, error)
	Groups() ([]string, error)
	DescribeGroup(group string) (Group, error)
	DeleteGroup(group string) error
	Commits(group, topic string) (map[int32]Commit, error)
	SetCommit(group, topic string, partition int32, commit Commit) error
	DeleteCommit(group, topic string, partition int32) error
	Cluster() (Cluster, error)
}

// Cluster as it is described.
type Cluster struct {
	ID         string
	Controller int32
	Nodes      map[int32]string
}

// Further calls that not every client has.
type (
	// Alterer has IncrementalAlterConfigs; the operation is "set", "delete", "append" or "subtract".
	Alterer interface {
		Alter(topic, operation, name, value string) error
	}
	// Replacer has AlterConfigs.
	Replacer interface {
		Replace(topic string, configs map[string]string) error
	}
	// IDDeleter deletes topics by id.
	IDDeleter interface {
		DeleteByID(id string) error
	}
	// RecordDeleter has DeleteRecords; the low watermark comes back.
	RecordDeleter interface {
		DeleteRecords(topic string, partition int32, offset int64) (int64, error)
	}
	// Sizer tells how many bytes of a topic the server has stored, as few as they are compressed.
	Sizer interface {
		Size(topic string) (int64, error)
	}
	// MemberRemover removes static members.
	MemberRemover interface {
		RemoveMember(group, instance string) error
	}
	// ProducerDescriber has DescribeProducers: the last sequence of each producer in partition 0.
	ProducerDescriber interface {
		LastSequences(topic string) ([]int32, error)
	}
	// FeatureDescriber tells the highest version of Fetch, and the features with their versions.
	FeatureDescriber interface {
		Features() (int16, map[string][2]int16, error)
	}
)
