package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"magnetar/compat"
)

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func transport(c *compat.Context) *kafka.Transport {
	config, login := secured()
	one := &kafka.Transport{TLS: config, SASL: login} // a shorter MetadataTTL would also be the time limit of each Metadata
	c.Closing(one.CloseIdleConnections)
	return one
}

type producer struct {
	c      *compat.Context
	writer *kafka.Writer
}

func (library) Producer(c *compat.Context, how compat.Producing) compat.Producer {
	hash := &kafka.Hash{}
	writer := &kafka.Writer{
		Addr:                   kafka.TCP(c.Bootstrap),
		AllowAutoTopicCreation: true,
		Balancer: kafka.BalancerFunc(func(message kafka.Message, partitions ...int) int {
			if wanted := message.WriterData.(int32); wanted != compat.Any {
				return int(wanted)
			}
			return hash.Balance(message, partitions...)
		}),
		BatchSize:    1000,
		BatchTimeout: max(how.Linger, 10*time.Millisecond),
		BatchBytes:   int64(max(how.BatchBytes, how.MaxBytes)),
		Compression:  codecs[how.Codec],
		RequiredAcks: kafka.RequireAll,
		Transport:    transport(c),
		MaxAttempts:  40, // a restart takes some seconds
	}
	switch how.Acks {
	case "0":
		writer.RequiredAcks = kafka.RequireNone
	case "1":
		writer.RequiredAcks = kafka.RequireOne
	}
	c.Closing(func() { compat.Must(writer.Close()) })
	return producer{c, writer}
}

func (p producer) Send(records ...compat.Record) ([]compat.Record, error) {
	sent := []kafka.Message{}
	for _, one := range records {
		message := kafka.Message{
			Topic: one.Topic, Key: one.Key, Value: one.Value, Time: one.Time, WriterData: one.Partition,
		}
		for _, header := range one.Headers {
			message.Headers = append(message.Headers, kafka.Header(header))
		}
		sent = append(sent, message)
	}
	err := again(p.c, func() error { return firstOf(p.writer.WriteMessages(p.c.Go(), sent...)) })
	back := []compat.Record{}
	for _, one := range records {
		one.Time = time.Time{} // the Writer does not tell
		back = append(back, one)
	}
	return back, err
}

// firstOf gives the first error of a batch that was written.
func firstOf(err error) error {
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		return first(each...)
	}
	return err
}

// again tries what the client leaves to its users to try again: what has no code of the server's (a connection, no
// leader yet), and what it calls temporary itself (a topic that is being created, a coordinator that loads), with one
// exception: that a group is subscribed does not pass.
func again(c *compat.Context, call func() error) error {
	for {
		err := call()
		var known kafka.Error
		final := errors.As(err, &known) && (!known.Temporary() || known == kafka.GroupSubscribedToTopic)
		if err == nil || final || c.Left() <= 0 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func from(message kafka.Message) compat.Record {
	record := compat.Record{
		Topic: message.Topic, Partition: int32(message.Partition), Offset: message.Offset, Key: message.Key,
		Value: message.Value, Time: message.Time,
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, compat.Header(header))
	}
	return record
}

// inbox gathers what goroutines receive until it is polled.
type inbox struct {
	messages chan kafka.Message
	errors   chan error
}

func newInbox() inbox { return inbox{make(chan kafka.Message, 1000), make(chan error, 100)} }

// fill reads until the reader is closed or tells an error of the server's; it goes on behind one that
// passes.
func (b inbox) fill(ctx context.Context, read func(context.Context) (kafka.Message, error)) {
	for {
		message, err := read(ctx)
		var known kafka.Error
		switch {
		case errors.As(err, &known) && !known.Temporary():
			b.errors <- err
			return
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return
		case err != nil:
			time.Sleep(50 * time.Millisecond)
			continue
		}
		select {
		case b.messages <- message:
		case <-ctx.Done():
			return
		}
	}
}

func (b inbox) Poll() ([]compat.Record, error) {
	records := []compat.Record{}
	select {
	case one := <-b.messages:
		records = append(records, from(one))
	case err := <-b.errors:
		return records, err
	case <-time.After(200 * time.Millisecond):
	}
	for range len(b.messages) {
		records = append(records, from(<-b.messages))
	}
	return records, nil
}

type reader struct {
	inbox
	readers map[int32]*kafka.Reader
	stop    map[int32]context.CancelFunc
}

func (library) Reader(c *compat.Context, topic string, partitions []int32, how compat.Reading) compat.Reader {
	r := &reader{newInbox(), map[int32]*kafka.Reader{}, map[int32]context.CancelFunc{}}
	for _, partition := range partitions {
		config := kafka.ReaderConfig{
			Brokers: []string{c.Bootstrap}, Topic: topic, Partition: int(partition), MinBytes: 1, MaxBytes: 10_000_000,
			Dialer: dialer(""), MaxWait: 100 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond, OffsetOutOfRangeError: how.Fixed,
		}
		if how.Committed {
			config.IsolationLevel = kafka.ReadCommitted
		}
		if how.FetchBytes > 0 {
			config.MaxBytes = int(how.FetchBytes)
		}
		one := kafka.NewReader(config)
		c.Closing(func() { compat.Must(one.Close()) })
		if how.Fixed {
			compat.Must(one.SetOffset(how.From))
		}
		r.readers[partition] = one
		r.begin(partition)
	}
	return r
}

func (r *reader) begin(partition int32) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop[partition] = stop
	go r.fill(ctx, r.readers[partition].ReadMessage)
}

func (r *reader) Seek(partition int32, offset int64) error {
	r.stop[partition]()
	for range len(r.messages) {
		<-r.messages
	}
	if err := r.readers[partition].SetOffset(offset); err != nil {
		return err
	}
	r.begin(partition)
	return nil
}

type member struct {
	inbox
	c      *compat.Context
	reader *kafka.Reader
	group  string
	id     string
	stop   context.CancelFunc
	closed atomic.Bool
}

var members atomic.Int32

func (library) Member(c *compat.Context, how compat.Membership) compat.Member {
	if how.Names {
		return newNaming(c, how)
	}
	id := how.ClientID
	if id == "" { // by its client id the member is found in the group
		id = fmt.Sprintf("compat-member-%d", members.Add(1))
	}
	dialer := dialer(id)
	if how.Cable != nil {
		dialer.DialFunc = how.Cable.DialContext
	}
	config := kafka.ReaderConfig{
		Brokers: []string{c.Bootstrap}, GroupID: how.Group, GroupTopics: how.Topics, Dialer: dialer,
		MinBytes: 1, MaxBytes: 10_000_000, MaxWait: 100 * time.Millisecond, ReadBackoffMin: 10 * time.Millisecond,
		HeartbeatInterval: 500 * time.Millisecond, SessionTimeout: how.Session, RebalanceTimeout: 10 * time.Second,
		JoinGroupBackoff: time.Second, StartOffset: kafka.FirstOffset,
	}
	if how.Latest {
		config.StartOffset = kafka.LastOffset
	}
	if how.Refresh > 0 {
		config.WatchPartitionChanges, config.PartitionWatchInterval = true, how.Refresh
	}
	switch how.Assignor {
	case "range":
		config.GroupBalancers = []kafka.GroupBalancer{kafka.RangeGroupBalancer{}}
	case "roundrobin":
		config.GroupBalancers = []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}}
	}
	if how.AutoCommit {
		config.CommitInterval = 100 * time.Millisecond
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{inbox: newInbox(), c: c, reader: kafka.NewReader(config), group: how.Group, id: id, stop: stop}
	c.Closing(m.Close)
	read := m.reader.FetchMessage
	if how.AutoCommit {
		read = m.reader.ReadMessage
	}
	go m.fill(ctx, read)
	return m
}

// Partitions are those that the group gave it: a Reader does not tell.
func (m *member) Partitions() []int32 {
	found, err := client(m.c).DescribeGroups(m.c.Go(), &kafka.DescribeGroupsRequest{GroupIDs: []string{m.group}})
	compat.Must(err)
	all := []int32{}
	for _, one := range found.Groups[0].Members {
		if one.ClientID != m.id {
			continue
		}
		for _, topic := range one.MemberAssignments.Topics {
			for _, partition := range topic.Partitions {
				all = append(all, int32(partition))
			}
		}
	}
	return all
}

func (m *member) Changes() int { return 0 }

func (m *member) Commit(record compat.Record) error {
	return m.reader.CommitMessages(m.c.Go(), kafka.Message{
		Topic: record.Topic, Partition: int(record.Partition), Offset: record.Offset,
	})
}

func (m *member) Close() {
	if m.closed.CompareAndSwap(false, true) {
		m.stop()
		compat.Must(m.reader.Close())
	}
}
