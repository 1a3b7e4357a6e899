package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const groupResource = kmsg.ConfigResourceType(32)

// fillOnly is the preparation alone, for loads of other clients.
func fillOnly(o *options) (any, error) {
	seconds, err := prepare(o)
	return map[string]float64{"fill_seconds": seconds}, err
}

// prepare makes the topic, sets the group's configs, makes the queue topic if there are to be lanes, and fills the topic.
func prepare(o *options) (float64, error) {
	if o.hasHot() && o.keys < 2 {
		return 0, errors.New("a hot key (-hot, -burst) needs -keys, for the others")
	}
	if err := makeAll(o); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := fill(o)
	return time.Since(begin).Seconds(), err
}

// makeAll makes the topic, sets the group's configs, and makes the queue topic if there are to be lanes.
func makeAll(o *options) error {
	if err := makeTopic(o); err != nil {
		return err
	}
	if err := configure(o, o.group); err != nil {
		return err
	}
	if o.lanes == 0 {
		return nil
	}
	return makeQueue(o)
}

func makeTopic(o *options) error {
	if o.there {
		return nil
	}
	return create(o, o.topic, o.partitions)
}

func create(o *options, name string, partitions int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(o.address))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), 1
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); err != nil {
		return fmt.Errorf("CreateTopics of %s: %w", name, err)
	}
	return nil
}

// configure makes a group start at the earliest record and sets the configs of the command line.
func configure(o *options, group string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(o.address))
	if err != nil {
		return err
	}
	defer client.Close()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = groupResource, group
	for _, pair := range append(pairs{{"share.auto.offset.reset", "earliest"}}, o.configs...) {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = pair[0], kmsg.StringPtr(pair[1])
		resource.Configs = append(resource.Configs, config)
	}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	if code := answer.Resources[0].ErrorCode; code != 0 {
		reason := ""
		if message := answer.Resources[0].ErrorMessage; message != nil {
			reason = ": " + *message
		}
		return fmt.Errorf("configs of group %s: %w%s", group, kerr.ErrorForCode(code), reason)
	}
	return nil
}

func producer(o *options, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(o.address),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(int32(o.batch)),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(200_000),
	}, more...)...)
}

// fill writes the records; number i is in the first eight bytes of its value, key i mod keys in partition key mod partitions.
func fill(o *options) error {
	client, err := producer(o, kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	padding := make([]byte, max(o.size, 8))
	for i := range padding {
		padding[i] = byte(i * 7919 % 251)
	}
	for i := range o.records {
		record := &kgo.Record{Topic: o.topic, Partition: int32(i % o.partitions)}
		if o.keys > 0 {
			key := o.keyAt(i)
			record.Key, record.Partition = keyOf(key), int32(key%o.partitions)
		}
		record.Value = append([]byte(nil), padding...)
		binary.BigEndian.PutUint64(record.Value, uint64(i))
		client.Produce(context.Background(), record, done)
	}
	if err := client.Flush(context.Background()); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// hotKey is the key of which -hot and -burst make more than of any other. Keys of one slot wait for each other; of
// 10,000 keys none shares its slot with key-1 (key-1174 does with key-0).
const (
	hotNumber = 1
	hotKey    = "key-1"
)

func (o *options) hasHot() bool { return o.hot > 0 || o.burst > 0 }

// isHot says whether record i has the hot key.
func (o *options) isHot(i int) bool {
	// spread evenly: the fractional parts of the multiples of the golden ratio
	return i < o.burst || math.Mod(float64(i)*0.6180339887498949, 1) < o.hot
}

// keyAt is the number of record i's key.
func (o *options) keyAt(i int) int {
	// a stride that is prime to the number of keys: neighbours have different keys
	key := i * 7919 % o.keys
	switch {
	case !o.hasHot():
		return key
	case o.isHot(i):
		return hotNumber
	case key == hotNumber:
		return hotNumber - 1
	default:
		return key
	}
}

// counted is how many records backlog waits for and counts: all, or those that do not have the hot key.
func (o *options) counted() int64 {
	count := int64(0)
	for i := range o.records {
		if !o.isHot(i) {
			count++
		}
	}
	return count
}

func keyOf(number int) []byte { return []byte("key-" + strconv.Itoa(number)) }

func keyNumber(key []byte) (int, error) {
	if len(key) < 5 {
		return 0, fmt.Errorf("key %q", key)
	}
	return strconv.Atoi(string(key[4:]))
}

// endOffsets is the sum of the latest offsets of a topic; false while it does not exist.
func endOffsets(client *kgo.Client, topic string, partitions int) (int64, bool, error) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	for partition := range partitions {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = int32(partition), -1
		asked.Partitions = append(asked.Partitions, one)
	}
	request.Topics = append(request.Topics, asked)
	var sum int64
	for _, shard := range client.RequestSharded(context.Background(), request) {
		if shard.Err != nil {
			return 0, false, nil // franz-go knows no leader yet
		}
		for _, found := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, partition := range found.Partitions {
				switch err := kerr.ErrorForCode(partition.ErrorCode); err {
				case nil:
					sum += partition.Offset
				case kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition:
					return 0, false, nil
				default:
					return 0, false, err
				}
			}
		}
	}
	return sum, true, nil
}
