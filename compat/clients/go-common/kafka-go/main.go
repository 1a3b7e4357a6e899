// kafka-go (segmentio): the shared cases of go-common on its Writer, Reader and Client; with -queue those of
// queue topics instead.
package main

import (
	"errors"
	"flag"
	"os"
	"slices"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"magnetar/compat"
)

type library struct{}

func (library) Code(err error) (int16, bool) {
	var large kafka.MessageTooLargeError
	if errors.As(err, &large) {
		return 0, false // the Writer's own check
	}
	var known kafka.Error
	if errors.As(err, &known) {
		return int16(known), true
	}
	return 0, false
}

func main() {
	compat.Drop("idempotent_producer", "restart_idempotent", "transactions", "subscribe_pattern", "pause_and_resume",
		"rebalance_cooperative", "static_membership", "error_fenced_instance", "delete_records", "describe_log_dirs",
		"describe_producers", "list_config_resources", "describe_features")
	compat.Add("topic_compression", topicCompression)
	compat.Add("error_inconsistent_protocol", inconsistentProtocol)
	name := "go-kafka-go"
	flag.Bool("queue", false, "the cases of queue topics")
	if slices.Contains(os.Args, "-queue") { // the cases depend on it: looked at before Main reads the command line
		name = "go-kafka-go-queue"
		compat.QueueCases()
		compat.Drop("queue_example")
	}
	compat.Main(library{}, name, "github.com/segmentio/kafka-go")
}

// topicCompression looks at the codec of the stored batches: the client has no DescribeLogDirs.
func topicCompression(c *compat.Context) {
	stored := map[string]kafka.Compression{"gzip": kafka.Gzip, "uncompressed": 0, "zstd": kafka.Zstd, "snappy": kafka.Snappy}
	for name, codec := range stored {
		topic, sent := c.Create(1, "compression.type", name), compat.Sample(100, 200)
		c.Produce(topic, sent, compat.Producing{Codec: "lz4"})
		compat.SameRecords(c.Read(topic, 1, 100), sent)
		got := compat.Try(client(c).Fetch(c.Go(), &kafka.FetchRequest{
			Topic: topic, MinBytes: 1, MaxBytes: 1_000_000,
		}))
		compat.Must(got.Error)
		stream, ok := got.Records.(*protocol.RecordStream)
		compat.Check(ok && len(stream.Records) > 0, "no batches: %T", got.Records)
		for _, one := range stream.Records {
			compat.Same(one.(*protocol.RecordBatch).Attributes.Compression(), codec, "codec of a batch of "+name)
		}
	}
}

// inconsistentProtocol uses a ConsumerGroup: a Reader tries again for ever, and only logs why.
func inconsistentProtocol(c *compat.Context) {
	topic, group := c.Create(1), c.Group()
	first := (library{}).Member(c, compat.Membership{Group: group, Topics: []string{topic}, Assignor: "range", Session: 1e10})
	c.Until("the first to have the partition", func() bool {
		_, err := first.Poll()
		compat.Must(err)
		return len(first.Partitions()) == 1
	})
	other := compat.Try(kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{c.Bootstrap}, Topics: []string{topic}, Dialer: dialer(""),
		GroupBalancers: []kafka.GroupBalancer{kafka.RoundRobinGroupBalancer{}},
	}))
	c.Closing(func() { compat.Must(other.Close()) })
	_, err := other.Next(c.Go())
	c.Fails(err, compat.InconsistentProtocol)
}
