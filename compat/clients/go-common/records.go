package compat

import (
	"fmt"
	"slices"
	"time"
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func init() {
	for _, codec := range codecs {
		Add("produce_"+codec, func(c *Context) {
			topic, sent := c.Create(1), Sample(500, 100)
			c.Produce(topic, sent, Producing{Codec: codec, Acks: "all"})
			SameRecords(c.Read(topic, 1, 500), sent)
		})
	}
	Add("acks", acks)
	Add("headers", headers)
	Add("null_key_and_value", nulls)
	Add("idempotent_producer", idempotent)
	Add("timestamps", timestamps)
	Add("log_append_time", logAppendTime)
	Add("auto_create_topic", func(c *Context) {
		topic := c.TopicName()
		c.Produce(topic, Sample(10, 100))
		Same(len(c.Read(topic, 1, 10)), 10, "records")
	})
	Add("many_partitions", manyPartitions)
	Add("large_message", largeMessage)
	Add("batch_larger_than_fetch", func(c *Context) {
		topic, sent := c.Create(1), Sample(200, 1000)
		c.Produce(topic, sent, Producing{Linger: 200 * time.Millisecond, BatchBytes: 250_000})
		SameRecords(c.Read(topic, 1, 200, Reading{FetchBytes: 1000}), sent)
	})
	Add("many_batches", func(c *Context) {
		topic := c.Create(1)
		c.Produce(topic, Sample(20_000, 100), Producing{BatchBytes: 8000})
		got := c.Read(topic, 1, 20_000)
		Same(offsets(got), span(0, 20_000), "offsets")
		Same(numbers(got), span(0, 20_000), "keys")
	})
	Add("compacted_topic", compactedTopic)
	Add("topic_compression", topicCompression)
}

func acks(c *Context) {
	topic := c.Create(1)
	for _, acks := range []string{"0", "1"} {
		c.Produce(topic, Sample(50, 100), Producing{Acks: acks})
	}
	Same(len(c.Read(topic, 1, 100)), 100, "records")
}

func headers(c *Context) {
	topic := c.Create(1)
	sent := []Header{
		{"trace", []byte{0, 255}},
		{"twice", []byte("1")},
		{"twice", []byte("2")},
		{"empty", []byte{}},
		{"null", nil},
		{"käse", []byte("ü")},
	}
	c.ProduceTo(topic, 0, []Record{{Key: []byte("k"), Value: []byte("v"), Headers: sent}, {Value: []byte("v")}})
	got := c.Read(topic, 1, 2)
	Same(len(got[0].Headers), len(sent), "headers")
	for n, one := range got[0].Headers {
		Same(one.Key, sent[n].Key, "header key")
		Check(equal(one.Value, sent[n].Value), "header %s: got %#v, expected %#v", one.Key, one.Value, sent[n].Value)
	}
	Same(len(got[1].Headers), 0, "headers of the second")
}

func nulls(c *Context) {
	topic := c.Create(1)
	sent := []Record{
		{Key: []byte("k"), Value: []byte("v")},
		{Value: []byte("no key")},
		{Key: []byte("no value")},
		{},
		{Key: []byte{}, Value: []byte{}},
	}
	c.ProduceTo(topic, 0, sent)
	SameRecords(c.Read(topic, 1, 5), sent)
}

func idempotent(c *Context) {
	topic := c.Create(3)
	c.Produce(topic, Sample(3000, 100), Producing{Idempotent: true, BatchBytes: 2000})
	inOrder(c.Read(topic, 3, 3000), 3)
}

// inOrder fails unless the records of each partition have all offsets, and rising numbers.
func inOrder(got []Record, partitions int32) {
	for partition := range partitions {
		mine := slices.Clone(got)
		mine = slices.DeleteFunc(mine, func(one Record) bool { return one.Partition != partition })
		Same(offsets(mine), span(0, int64(len(mine))), "offsets")
		order := numbers(mine)
		Check(slices.IsSorted(order), "out of order in partition %d", partition)
		Same(len(slices.Compact(order)), len(mine), "distinct records")
	}
}

func timestamps(c *Context) {
	topic := c.Create(1)
	start := time.UnixMilli(time.Now().UnixMilli()).Add(-time.Minute)
	sent := Sample(5, 10)
	for n := range sent {
		sent[n].Time = start.Add(time.Duration(n) * time.Millisecond)
	}
	c.ProduceTo(topic, 0, sent)
	for n, one := range c.Read(topic, 1, 5) {
		Same(one.Time.UnixMilli(), sent[n].Time.UnixMilli(), "timestamp")
	}
}

func logAppendTime(c *Context) {
	topic := c.Create(1, "message.timestamp.type", "LogAppendTime")
	before := time.Now().Add(-time.Second)
	sent := c.ProduceTo(topic, 0, []Record{{Value: []byte{1}, Time: time.UnixMilli(1000)}})
	got := c.Read(topic, 1, 1)[0]
	Check(got.Time.After(before) && got.Time.Before(before.Add(time.Minute)), "not the broker's: %v", got.Time)
	if !sent[0].Time.IsZero() {
		Same(sent[0].Time.UnixMilli(), got.Time.UnixMilli(), "timestamp in the produce response")
	}
}

func manyPartitions(c *Context) {
	topic := c.Create(60)
	sent := []Record{}
	expected := map[string]bool{}
	for n := range 1200 {
		value := fmt.Sprint(n)
		sent = append(sent, Record{Topic: topic, Partition: int32(n % 60), Value: []byte(value)})
		expected[fmt.Sprintf("%d:%s", n%60, value)] = true
	}
	Try(c.producer().Send(sent...))
	got := map[string]bool{}
	for _, one := range c.Read(topic, 60, 1200) {
		got[fmt.Sprintf("%d:%s", one.Partition, one.Value)] = true
	}
	Same(got, expected, "records")
}

func largeMessage(c *Context) {
	topic, big := c.Create(1), Sample(1, 1_000_000)
	c.Produce(topic, big, Producing{MaxBytes: 1_100_000})
	SameRecords(c.Read(topic, 1, 1), big)
	topic, big = c.Create(1, "max.message.bytes", "4000000"), Sample(1, 3_000_000)
	c.Produce(topic, big, Producing{MaxBytes: 4_000_000})
	SameRecords(c.Read(topic, 1, 1), big)
}

func compactedTopic(c *Context) {
	topic := c.Create(1, "cleanup.policy", "compact")
	sent := []Record{
		{Key: []byte("a"), Value: []byte("1")},
		{Key: []byte("b"), Value: []byte("2")},
		{Key: []byte("a")},
	}
	c.Produce(topic, sent)
	SameRecords(c.Read(topic, 1, 3)[2:], sent[2:])
}

func topicCompression(c *Context) {
	sizes := map[string]int64{}
	for _, codec := range []string{"gzip", "uncompressed", "zstd", "snappy"} {
		topic, sent := c.Create(1, "compression.type", codec), Sample(100, 200)
		c.Produce(topic, sent, Producing{Codec: "lz4", Linger: 100 * time.Millisecond})
		SameRecords(c.Read(topic, 1, 100), sent)
		sizes[codec] = Try(offered[Sizer](c).Size(topic))
	}
	// Half of each value is noise.
	for _, codec := range []string{"gzip", "zstd"} {
		Check(float64(sizes[codec]) < 0.8*float64(sizes["uncompressed"]), "stored sizes: %v", sizes)
	}
}
