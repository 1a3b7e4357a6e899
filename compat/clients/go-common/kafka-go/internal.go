package main

import (
	"strings"

	"github.com/segmentio/kafka-go"
	"magnetar/compat"
)

// internal says whether kafka-go's Transport acts as if a topic of this name did not exist: it drops topics that are
// internal from what it knows of the cluster, so its CreateTopics would wait for one for ever, and Metadata calls it
// unknown. What is asked through a Conn has no such cache.
func internal(topic string) bool { return strings.HasSuffix(topic, "-QUEUE") }

func (a *admin) conn() (*kafka.Conn, error) {
	return dialer("").DialContext(a.c.Go(), "tcp", a.c.Bootstrap)
}

func (a *admin) createInternal(topic kafka.TopicConfig) error {
	conn, err := a.conn()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return conn.CreateTopics(topic)
}

func (a *admin) describeInternal(topic string) (compat.Topic, error) {
	conn, err := a.conn()
	if err != nil {
		return compat.Topic{}, err
	}
	defer func() { _ = conn.Close() }()
	partitions, err := conn.ReadPartitions(topic)
	found := compat.Topic{Partitions: len(partitions)}
	for _, one := range partitions {
		found.Leader = int32(one.Leader.ID)
		found.InSync += len(one.Isr)
		if one.Error != nil {
			return found, one.Error
		}
	}
	return found, err
}
