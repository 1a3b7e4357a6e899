package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"magnetar/compat"
)

// naming is a member whose commits have metadata: a Reader's have none, so it is built of a ConsumerGroup, whose
// Generation names the member, of a Reader for each partition, and of Client.OffsetCommit.
type naming struct {
	*compat.Handover
	c      *compat.Context
	group  *kafka.ConsumerGroup
	dialer *kafka.Dialer
	client *kafka.Client
	stop   context.CancelFunc
	closed sync.Once
	now    atomic.Pointer[kafka.Generation]
}

func newNaming(c *compat.Context, how compat.Membership) *naming {
	m := &naming{Handover: compat.NewHandover(), c: c, dialer: dialer("")}
	pool := transport(c)
	if how.Cable != nil {
		m.dialer.DialFunc, pool.Dial = how.Cable.DialContext, how.Cable.DialContext
	}
	m.client = &kafka.Client{Addr: kafka.TCP(c.Bootstrap), Transport: pool}
	m.group = compat.Try(kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: how.Group, Brokers: []string{c.Bootstrap}, Topics: how.Topics, Dialer: m.dialer,
		HeartbeatInterval: 500 * time.Millisecond, SessionTimeout: how.Session, RebalanceTimeout: 10 * time.Second,
		JoinGroupBackoff: time.Second, StartOffset: kafka.FirstOffset,
	}))
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	c.Closing(m.Close)
	go m.work(ctx)
	return m
}

func (m *naming) work(ctx context.Context) {
	for {
		generation, err := m.group.Next(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, kafka.ErrGroupClosed):
			return
		case err != nil:
			continue // it joins again
		}
		m.now.Store(generation)
		for topic, partitions := range generation.Assignments {
			for _, one := range partitions {
				generation.Start(func(ctx context.Context) { m.read(ctx, topic, one) })
			}
		}
	}
}

// read until the generation is over: one that comes back earlier would end it.
func (m *naming) read(ctx context.Context, topic string, one kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{m.c.Bootstrap}, Topic: topic, Partition: one.ID, Dialer: m.dialer,
		MinBytes: 1, MaxBytes: 10_000_000, MaxWait: 100 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond,
	})
	defer func() { _ = reader.Close() }()
	if err := reader.SetOffset(one.Offset); err != nil {
		return
	}
	for ctx.Err() == nil {
		message, err := reader.FetchMessage(ctx)
		if err == nil && !m.Give(ctx, from(message)) {
			return
		}
	}
}

func (m *naming) CommitNaming(topic string, partition int32, offset int64, metadata string) error {
	generation := m.now.Load()
	ctx, cancel := context.WithTimeout(context.Background(), m.c.Left())
	defer cancel()
	answer, err := m.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: generation.GroupID, GenerationID: int(generation.ID), MemberID: generation.MemberID,
		Topics: map[string][]kafka.OffsetCommit{
			topic: {{Partition: int(partition), Offset: offset, Metadata: metadata}},
		},
	})
	if err != nil {
		return err
	}
	return answer.Topics[topic][0].Error
}

func (m *naming) Commit(record compat.Record) error {
	return m.CommitNaming(record.Topic, record.Partition, record.Offset+1, "")
}

// Partitions of the generation that it has joined last.
func (m *naming) Partitions() []int32 {
	all := []int32{}
	if generation := m.now.Load(); generation != nil {
		for _, partitions := range generation.Assignments {
			for _, one := range partitions {
				all = append(all, int32(one.ID))
			}
		}
	}
	return all
}

func (m *naming) Changes() int { return 0 }

func (m *naming) Close() {
	m.closed.Do(func() {
		m.stop()
		m.Release()
		compat.Must(m.group.Close())
	})
}
