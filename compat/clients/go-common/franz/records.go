package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"magnetar/compat"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// partitioner takes the record's partition where it has one.
type partitioner struct{ keyed kgo.Partitioner }

type topicPartitioner struct{ keyed kgo.TopicPartitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.keyed.ForTopic(topic)}
}

func (topicPartitioner) RequiresConsistency(*kgo.Record) bool { return true }

func (p topicPartitioner) Partition(record *kgo.Record, count int) int {
	if record.Partition != compat.Any {
		return int(record.Partition)
	}
	return p.keyed.Partition(record, count)
}

type producer struct {
	c      *compat.Context
	client *kgo.Client
}

func (library) Producer(c *compat.Context, how compat.Producing) compat.Producer {
	options := []kgo.Opt{
		kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
		kgo.ProducerLinger(how.Linger),
	}
	if how.Codec != "" {
		options = append(options, kgo.ProducerBatchCompression(codecs[how.Codec]))
	}
	switch how.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "all":
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite())
	}
	if size := max(how.BatchBytes, how.MaxBytes); size > 0 {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(size)))
	}
	return &producer{c, connect(c, options...)}
}

func (p *producer) Send(records ...compat.Record) ([]compat.Record, error) {
	sent := []*kgo.Record{}
	for _, one := range records {
		record := &kgo.Record{
			Topic: one.Topic, Partition: one.Partition, Key: one.Key, Value: one.Value, Timestamp: one.Time,
		}
		for _, header := range one.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader(header))
		}
		sent = append(sent, record)
	}
	err := p.client.ProduceSync(p.c.Go(), sent...).FirstErr()
	back := from(sent)
	for n := range back {
		back[n].Time = time.Time{} // the client leaves what the broker put out of the answer
	}
	return back, err
}

func from(records []*kgo.Record) []compat.Record {
	all := []compat.Record{}
	for _, one := range records {
		record := compat.Record{
			Topic: one.Topic, Partition: one.Partition, Offset: one.Offset, Key: one.Key, Value: one.Value,
			Time: one.Timestamp,
		}
		for _, header := range one.Headers {
			record.Headers = append(record.Headers, compat.Header(header))
		}
		all = append(all, record)
	}
	return all
}

type reader struct {
	client *kgo.Client
	topic  string
}

func (library) Reader(c *compat.Context, topic string, partitions []int32, how compat.Reading) compat.Reader {
	start := kgo.NewOffset().AtStart()
	options := []kgo.Opt{kgo.FetchMaxWait(100 * time.Millisecond)}
	if how.Fixed {
		start = kgo.NewOffset().At(how.From)
		options = append(options, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	}
	if how.Committed {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if how.FetchBytes > 0 {
		options = append(options, kgo.FetchMaxBytes(how.FetchBytes), kgo.FetchMaxPartitionBytes(how.FetchBytes))
	}
	assigned := map[int32]kgo.Offset{}
	for _, partition := range partitions {
		assigned[partition] = start
	}
	options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned}))
	return &reader{connect(c, options...), topic}
}

// poll gives the first error that the client does not mend by itself.
func poll(client *kgo.Client) ([]compat.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(ctx)
	for _, one := range fetches.Errors() {
		var group *kgo.ErrGroupSession
		known := (*kerr.Error)(nil)
		switch {
		case errors.Is(one.Err, context.DeadlineExceeded):
		case errors.As(one.Err, &group) && !errors.As(one.Err, &known): // it joins again
		default:
			return nil, one.Err
		}
	}
	return from(fetches.Records()), nil
}

func (r *reader) Poll() ([]compat.Record, error) { return poll(r.client) }

func (r *reader) Seek(partition int32, offset int64) error {
	to := map[int32]kgo.EpochOffset{partition: {Epoch: -1, Offset: offset}}
	r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: to})
	return nil
}

func (r *reader) Pause(partition int32) {
	r.client.PauseFetchPartitions(map[string][]int32{r.topic: {partition}})
}

func (r *reader) Resume(partition int32) {
	r.client.ResumeFetchPartitions(map[string][]int32{r.topic: {partition}})
}

type member struct {
	c       *compat.Context
	client  *kgo.Client
	mutex   sync.Mutex
	mine    map[string][]int32
	changes int
	names   bool
}

func (library) Member(c *compat.Context, how compat.Membership) compat.Member {
	m := &member{c: c, mine: map[string][]int32{}, names: how.Names}
	options := []kgo.Opt{
		kgo.ConsumerGroup(how.Group),
		kgo.SessionTimeout(how.Session),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.RebalanceTimeout(10 * time.Second),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(m.assigned),
		kgo.OnPartitionsRevoked(m.revoked),
		kgo.OnPartitionsLost(m.revoked),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if how.Latest {
		options[len(options)-1] = kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd())
	}
	if how.Pattern != "" {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(how.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(how.Topics...))
	}
	switch how.Assignor {
	case "range":
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case "roundrobin":
		options = append(options, kgo.Balancers(kgo.RoundRobinBalancer()))
	case "cooperative":
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if how.Instance != "" {
		options = append(options, kgo.InstanceID(how.Instance))
	}
	if how.Refresh > 0 {
		options = append(options, kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(how.Refresh))
	}
	if how.AutoCommit {
		options = append(options, kgo.AutoCommitInterval(100*time.Millisecond))
	} else {
		options = append(options, kgo.DisableAutoCommit())
	}
	if how.NewProtocol {
		options = append(options, kgo.ServerSideBalancer())
	}
	if how.Names {
		options = append(options, kgo.BlockRebalanceOnPoll())
	}
	if how.ClientID != "" {
		options = append(options, kgo.ClientID(how.ClientID))
	}
	if how.Cable != nil {
		options = append(options, kgo.Dialer(how.Cable.DialContext))
	}
	m.client = connect(c, options...)
	return m
}

func (m *member) assigned(_ context.Context, _ *kgo.Client, new map[string][]int32) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for topic, partitions := range new {
		m.mine[topic] = append(m.mine[topic], partitions...)
		m.changes += len(partitions)
	}
}

func (m *member) revoked(_ context.Context, _ *kgo.Client, old map[string][]int32) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for topic, partitions := range old {
		m.mine[topic] = slices.DeleteFunc(m.mine[topic], func(one int32) bool {
			return slices.Contains(partitions, one)
		})
		m.changes += len(partitions)
	}
}

func (m *member) Poll() ([]compat.Record, error) {
	if m.names {
		m.client.AllowRebalance()
	}
	return poll(m.client)
}

func (m *member) Partitions() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	all := []int32{}
	for _, partitions := range m.mine {
		all = append(all, partitions...)
	}
	return all
}

func (m *member) Changes() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.changes
}

func (m *member) Commit(record compat.Record) error {
	return m.client.CommitRecords(m.c.Go(), &kgo.Record{
		Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, LeaderEpoch: -1,
	})
}

func (m *member) CommitNaming(topic string, partition int32, offset int64, metadata string) error {
	ctx, cancel := context.WithTimeout(context.Background(), m.c.Left())
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		request.Topics[0].Partitions[0].Metadata = &metadata
		return nil
	})
	var failed error
	where := map[string]map[int32]kgo.EpochOffset{topic: {partition: {Epoch: -1, Offset: offset}}}
	m.client.CommitOffsetsSync(ctx, where, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
	) {
		if failed = err; err == nil {
			failed = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
		}
	})
	return failed
}

func (m *member) Close() { m.client.CloseAllowingRebalance() }
