package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"magnetar/compat"
)

var codecs = map[string]sarama.CompressionCodec{
	"": sarama.CompressionNone, "none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// partitioner takes the partition that is wanted, which Metadata tells, or hashes.
type partitioner struct{ hash sarama.Partitioner }

func (p partitioner) Partition(message *sarama.ProducerMessage, count int32) (int32, error) {
	if wanted := message.Metadata.(int32); wanted != compat.Any {
		return wanted, nil
	}
	return p.hash.Partition(message, count)
}

func (partitioner) RequiresConsistency() bool { return true }

type producer struct{ sarama.SyncProducer }

func (l library) Producer(c *compat.Context, how compat.Producing) compat.Producer {
	config := l.config()
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = 80, 250*time.Millisecond // a restart takes some seconds
	config.Producer.Compression = codecs[how.Codec]
	config.Producer.Flush.Frequency = how.Linger
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = func(topic string) sarama.Partitioner {
		return partitioner{sarama.NewHashPartitioner(topic)}
	}
	switch how.Acks {
	case "0":
		config.Producer.RequiredAcks = sarama.NoResponse
	case "1":
		config.Producer.RequiredAcks = sarama.WaitForLocal
	}
	if how.Idempotent {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	if how.BatchBytes > 0 {
		config.Producer.Flush.Bytes = how.BatchBytes
		config.Producer.Flush.Frequency = max(how.Linger, 5*time.Millisecond)
		config.Producer.Flush.MaxMessages = how.BatchBytes / 100
	}
	if how.MaxBytes > 0 {
		config.Producer.MaxMessageBytes = how.MaxBytes
	}
	client := compat.Try(sarama.NewSyncProducer([]string{c.Bootstrap}, config))
	c.Closing(func() { compat.Must(client.Close()) })
	return producer{client}
}

func bytesOf(value []byte) sarama.Encoder {
	if value == nil {
		return nil
	}
	return sarama.ByteEncoder(value)
}

func message(record compat.Record) *sarama.ProducerMessage {
	sent := &sarama.ProducerMessage{
		Topic: record.Topic, Key: bytesOf(record.Key), Value: bytesOf(record.Value), Timestamp: record.Time,
		Metadata: record.Partition,
	}
	for _, header := range record.Headers {
		sent.Headers = append(sent.Headers, sarama.RecordHeader{Key: []byte(header.Key), Value: header.Value})
	}
	return sent
}

func (p producer) Send(records ...compat.Record) ([]compat.Record, error) {
	sent := []*sarama.ProducerMessage{}
	for _, one := range records {
		sent = append(sent, message(one))
	}
	if err := p.SendMessages(sent); err != nil {
		var all sarama.ProducerErrors
		if errors.As(err, &all) {
			return nil, all[0].Err
		}
		return nil, err
	}
	back := slices.Clone(records)
	for n, one := range sent {
		back[n].Partition, back[n].Offset, back[n].Time = one.Partition, one.Offset, one.Timestamp
	}
	return back, nil
}

func from(message *sarama.ConsumerMessage) compat.Record {
	record := compat.Record{
		Topic: message.Topic, Partition: message.Partition, Offset: message.Offset, Key: message.Key,
		Value: message.Value, Time: message.Timestamp,
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, compat.Header{Key: string(header.Key), Value: header.Value})
	}
	return record
}

// inbox gathers what goroutines receive until it is polled.
type inbox struct {
	messages chan *sarama.ConsumerMessage
	errors   chan error
}

func newInbox() inbox {
	return inbox{make(chan *sarama.ConsumerMessage, 1000), make(chan error, 100)}
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
	consumer sarama.Consumer
	topic    string
	open     map[int32]sarama.PartitionConsumer
}

func (l library) Reader(c *compat.Context, topic string, partitions []int32, how compat.Reading) compat.Reader {
	config := l.config()
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	if how.Committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if how.FetchBytes > 0 {
		config.Consumer.Fetch.Default = how.FetchBytes
	}
	consumer := compat.Try(sarama.NewConsumer([]string{c.Bootstrap}, config))
	c.Closing(func() { compat.Must(consumer.Close()) })
	r := &reader{newInbox(), consumer, topic, map[int32]sarama.PartitionConsumer{}}
	start := sarama.OffsetOldest
	if how.Fixed {
		start = how.From
	}
	for _, partition := range partitions {
		if err := r.begin(partition, start); err != nil {
			r.errors <- err
		}
	}
	c.Closing(func() {
		for _, one := range r.open {
			one.AsyncClose()
		}
	})
	return r
}

func (r *reader) begin(partition int32, offset int64) error {
	one, err := r.consumer.ConsumePartition(r.topic, partition, offset)
	if err != nil {
		return err
	}
	r.open[partition] = one
	go func() {
		for message := range one.Messages() {
			r.messages <- message
		}
	}()
	return nil
}

func (r *reader) Seek(partition int32, offset int64) error {
	if err := r.open[partition].Close(); err != nil {
		return err
	}
	return r.begin(partition, offset)
}

func (r *reader) Pause(partition int32)  { r.open[partition].Pause() }
func (r *reader) Resume(partition int32) { r.open[partition].Resume() }

type member struct {
	inbox
	group   sarama.ConsumerGroup
	auto    bool
	stop    context.CancelFunc
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
	claims  map[int32]bool
	changes int
	once    sync.Once
	hand    *compat.Handover
	refused error
}

var strategies = map[string]func() sarama.BalanceStrategy{
	"range": sarama.NewBalanceStrategyRange, "roundrobin": sarama.NewBalanceStrategyRoundRobin,
	"cooperative": sarama.NewBalanceStrategyCooperativeSticky,
}

func (l library) Member(c *compat.Context, how compat.Membership) compat.Member {
	config := l.config()
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.Session.Timeout = how.Session
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	config.Consumer.Group.InstanceId = how.Instance
	config.Consumer.Offsets.AutoCommit.Enable = how.AutoCommit
	config.Consumer.Return.Errors = how.Names
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if how.Latest {
		config.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	if how.Refresh > 0 {
		config.Metadata.RefreshFrequency = how.Refresh
	}
	if how.ClientID != "" {
		config.ClientID = how.ClientID
	}
	if how.Assignor != "" {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[how.Assignor]()}
	}
	if how.Cable != nil {
		config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, how.Cable
	}
	group := compat.Try(sarama.NewConsumerGroup([]string{c.Bootstrap}, how.Group, config))
	ctx, stop := context.WithCancel(context.Background())
	m := &member{inbox: newInbox(), group: group, auto: how.AutoCommit, stop: stop, claims: map[int32]bool{}}
	c.Closing(m.Close)
	if how.Names {
		m.hand = compat.NewHandover()
		go func() {
			for err := range group.Errors() {
				if _, known := l.Code(err); known {
					m.mutex.Lock()
					m.refused = err
					m.mutex.Unlock()
				}
			}
		}()
	}
	go func() {
		for ctx.Err() == nil {
			err := group.Consume(ctx, how.Topics, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if _, known := l.Code(err); known && ctx.Err() == nil {
				m.errors <- fmt.Errorf("consume: %w", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return m
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = session
	m.changes++
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.claimed(claim.Partition(), true)
	defer m.claimed(claim.Partition(), false)
	for message := range claim.Messages() {
		if m.hand != nil {
			some := []compat.Record{from(message)}
			for len(claim.Messages()) > 0 {
				if one := <-claim.Messages(); one != nil {
					some = append(some, from(one))
				}
			}
			if !m.hand.Give(session.Context(), some...) {
				return nil
			}
			continue
		}
		select {
		case m.messages <- message:
			if m.auto {
				session.MarkMessage(message, "")
			}
		case <-session.Context().Done():
			return nil
		}
	}
	return nil
}

func (m *member) Poll() ([]compat.Record, error) {
	if m.hand == nil {
		return m.inbox.Poll()
	}
	return m.hand.Poll()
}

func (m *member) claimed(partition int32, mine bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if mine {
		m.claims[partition] = true
	} else {
		delete(m.claims, partition)
	}
	m.changes++
}

func (m *member) Partitions() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	all := []int32{}
	for partition := range m.claims {
		all = append(all, partition)
	}
	return all
}

func (m *member) Changes() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.changes
}

func (m *member) Commit(record compat.Record) error {
	m.mutex.Lock()
	session := m.session
	m.mutex.Unlock()
	session.MarkOffset(record.Topic, record.Partition, record.Offset+1, "")
	session.Commit()
	return nil
}

// CommitNaming marks and commits. Sarama passes over a mark that is not above the one before it, but for a reset. What the
// server answers comes through the group's errors, so a commit that errs is made again or belongs to the past.
func (m *member) CommitNaming(topic string, partition int32, offset int64, metadata string) error {
	m.mutex.Lock()
	session := m.session
	m.mutex.Unlock()
	session.MarkOffset(topic, partition, offset, metadata)
	session.ResetOffset(topic, partition, offset, metadata)
	session.Commit()
	return nil
}

// Refused is the last error of a commit.
func (m *member) Refused() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.refused
}

func (m *member) Close() {
	m.once.Do(func() {
		m.stop()
		if m.hand != nil {
			m.hand.Release()
		}
		compat.Must(m.group.Close())
	})
}

func transactions(c *compat.Context) {
	topic := c.Create(1)
	config := c.Library.(library).config()
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = c.Group()
	client, err := sarama.NewSyncProducer([]string{c.Bootstrap}, config)
	if code, ok := c.Library.Code(err); ok {
		c.Refused = fmt.Sprintf("%d: %v", code, err)
		return
	}
	compat.Must(err)
	defer func() { _ = client.Close() }()
	for n := range byte(3) {
		compat.Must(client.BeginTxn())
		_, _, err := client.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder{n}})
		compat.Must(err)
		if n == 1 {
			compat.Must(client.AbortTxn())
		} else {
			compat.Must(client.CommitTxn())
		}
	}
	got := c.Read(topic, 1, 2, compat.Reading{Committed: true})
	compat.Same([]byte{got[0].Value[0], got[1].Value[0]}, []byte{0, 2}, "committed records")
}
