package compat

import (
	"bytes"
	"fmt"
	"reflect"
)

// Check fails with what unless the condition holds.
func Check(condition bool, what string, values ...any) {
	if !condition {
		panic(fmt.Sprintf(what, values...))
	}
}

// Same fails unless both are equal; long values are shortened in the message.
func Same(actual, expected any, what string) {
	if !reflect.DeepEqual(actual, expected) {
		panic(fmt.Sprintf("%s: got %s, expected %s", what, short(actual), short(expected)))
	}
}

func short(value any) string {
	text := fmt.Sprintf("%+v", value)
	if len(text) > 300 {
		return text[:300] + "…"
	}
	return text
}

// Must fails with an error, if there is one.
func Must(err error) {
	if err != nil {
		panic(fmt.Sprintf("%T: %v", err, err))
	}
}

// Try is Must for a call that gives a value too.
func Try[T any](value T, err error) T {
	Must(err)
	return value
}

// SameRecords fails unless keys and values are equal, null and empty kept apart.
func SameRecords(actual, expected []Record) {
	Same(len(actual), len(expected), "number of records")
	for n, one := range actual {
		Check(equal(one.Key, expected[n].Key), "key %d: got %q, expected %q", n, cut(one.Key), cut(expected[n].Key))
		Check(equal(one.Value, expected[n].Value), "value %d: got %q, expected %q", n, cut(one.Value),
			cut(expected[n].Value))
	}
}

func cut(value []byte) []byte { return value[:min(len(value), 40)] }

func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// Kafka's error codes that cases expect.
const (
	OffsetOutOfRange         = 1
	UnknownTopicOrPartition  = 3
	MessageTooLarge          = 10
	InvalidTopic             = 17
	InconsistentProtocol     = 23
	UnknownMember            = 25
	InvalidTimestamp         = 32
	TopicExists              = 36
	InvalidPartitions        = 37
	InvalidReplicationFactor = 38
	InvalidConfig            = 40
	InvalidRequest           = 42
	GroupNotEmpty            = 68
	GroupIDNotFound          = 69
	FencedInstance           = 82
	GroupSubscribed          = 86
	InvalidRecord            = 87
	UnknownTopicID           = 100
)

// Fails fails unless err is the server's error of this code; the message comes back.
func (c *Context) Fails(err error, code int16) string {
	if err == nil {
		panic(fmt.Sprintf("expected error %d, got no error", code))
	}
	if number, ok := c.Library.Code(err); ok {
		Check(number == code, "expected error %d, got %d: %v", code, number, err)
		return err.Error()
	}
	panic(fmt.Sprintf("expected error %d, got %T: %v", code, err, err))
}
