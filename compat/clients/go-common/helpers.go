package compat

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sample gives records with distinct keys; half of a value is text (compresses), half noise (does not).
func Sample(count, size int) []Record {
	noise := rand.New(rand.NewPCG(7, 7))
	records := make([]Record, count)
	for n := range records {
		value := bytes.Repeat([]byte("."), size)
		copy(value, "value-"+strconv.Itoa(n)+" ")
		for i := size / 2; i < size; i++ {
			value[i] = byte(noise.Uint32())
		}
		records[n] = Record{Partition: Any, Key: []byte("key-" + strconv.Itoa(n)), Value: value}
	}
	return records
}

// To gives the records with this topic and partition.
func To(topic string, partition int32, records []Record) []Record {
	to := slices.Clone(records)
	for n := range to {
		to[n].Topic, to[n].Partition = topic, partition
	}
	return to
}

// Number of a sampled record.
func Number(record Record) int {
	_, text, _ := strings.Cut(string(record.Key), "-")
	number, err := strconv.Atoi(text)
	Check(err == nil, "not a record of the sample: %q", cut(record.Key))
	return number
}

func offsets(records []Record) []int64 {
	all := []int64{}
	for _, one := range records {
		all = append(all, one.Offset)
	}
	return all
}

func numbers(records []Record) []int64 {
	all := []int64{}
	for _, one := range records {
		all = append(all, int64(Number(one)))
	}
	return all
}

func span(from, to int64) []int64 {
	all := []int64{}
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

// Admin is one client for the case.
func (c *Context) Admin() Admin {
	if c.admin == nil {
		c.admin = c.Library.Admin(c)
	}
	return c.admin
}

// offered gives the admin as one that has further calls.
func offered[T any](c *Context) T {
	one, ok := c.Admin().(T)
	if !ok {
		panic(fmt.Sprintf("the program has no %T; it belongs under [lacks]", *new(T)))
	}
	return one
}

// Create makes a topic; configs in pairs. It comes back when the broker knows it.
func (c *Context) Create(partitions int32, configs ...string) string {
	spec := TopicSpec{Name: c.TopicName(), Partitions: partitions, Replicas: 1, Configs: map[string]string{}}
	for n := 0; n < len(configs); n += 2 {
		spec.Configs[configs[n]] = configs[n+1]
	}
	Must(c.Admin().Create(spec))
	c.Describe(spec.Name)
	return spec.Name
}

// Describe asks until the topic is known: Kafka answers CreateTopics before its brokers know of the topic.
func (c *Context) Describe(topic string) Topic {
	var found Topic
	c.Until("the topic to be known", func() bool {
		one, err := c.Admin().Describe(topic)
		if code, ok := c.Library.Code(err); ok && (code == UnknownTopicOrPartition || code == 5) {
			return false
		}
		Must(err)
		found = one
		return one.Partitions > 0 && one.Leader >= 0
	})
	return found
}

// Produce with a producer of its own; the client chooses the partitions.
func (c *Context) Produce(topic string, records []Record, how ...Producing) []Record {
	return c.ProduceTo(topic, Any, records, how...)
}

// ProduceTo is Produce to one partition.
func (c *Context) ProduceTo(topic string, partition int32, records []Record, how ...Producing) []Record {
	return Try(c.producer(how...).Send(To(topic, partition, records)...))
}

func (c *Context) producer(how ...Producing) Producer {
	return c.Library.Producer(c, append(how, Producing{})[0])
}

func (c *Context) reader(topic string, partitions int32, how ...Reading) Reader {
	all := []int32{}
	for n := range partitions {
		all = append(all, n)
	}
	return c.Library.Reader(c, topic, all, append(how, Reading{})[0])
}

// take polls until there are so many.
func (c *Context) take(from interface{ Poll() ([]Record, error) }, count int) []Record {
	records := []Record{}
	defer func() {
		if problem := recover(); problem != nil {
			panic(fmt.Sprintf("%v (after %d of %d records)", problem, len(records), count))
		}
	}()
	c.Until(fmt.Sprintf("%d records", count), func() bool {
		records = append(records, Try(from.Poll())...)
		return len(records) >= count
	})
	return records
}

// Read gives so many records from the beginning.
func (c *Context) Read(topic string, partitions int32, count int, how ...Reading) []Record {
	return c.take(c.reader(topic, partitions, how...), count)
}

// quiet is for how long nothing must come where nothing is expected.
const quiet = 300 * time.Millisecond

func (c *Context) nothing(from interface{ Poll() ([]Record, error) }) {
	for end := time.Now().Add(quiet); time.Now().Before(end); {
		Same(len(Try(from.Poll())), 0, "records where there are none")
	}
}
