package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"magnetar/compat"
)

// lock is a short one: the least that the servers are set to allow is a second.
const lock = 1500 * time.Millisecond

// sharer is a member of a share group. What a poll gives and nobody marks, the next poll accepts.
type sharer struct {
	c      *compat.Context
	client *kgo.Client
	once   sync.Once
	mutex  sync.Mutex
	failed []error // of acknowledgements
	told   int     // partitions that were acknowledged
}

// join makes a member. One fetch for each poll, so that it holds nothing that it was not asked for.
func join(c *compat.Context, group string, topics []string, options ...kgo.Opt) *sharer {
	s := &sharer{c: c}
	all := append(append(secured(),
		kgo.SeedBrokers(c.Bootstrap), kgo.ShareGroup(group), kgo.ConsumeTopics(topics...),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.MaxConcurrentFetches(0),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(500*time.Millisecond),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			for _, one := range results {
				s.told++
				if one.Err != nil {
					s.failed = append(s.failed, one.Err)
				}
			}
		}),
	), options...)
	s.client = compat.Try(kgo.NewClient(all...))
	c.Closing(s.leave)
	return s
}

// leave closes the session and leaves the group.
func (s *sharer) leave() { s.once.Do(s.client.Close) }

// poll gives what arrives within some 200 ms.
func (s *sharer) poll() []*kgo.Record {
	records, err := s.tryPoll()
	compat.Must(err)
	return records
}

func (s *sharer) tryPoll() ([]*kgo.Record, error) {
	within, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fetches := s.client.PollFetches(within)
	for _, one := range fetches.Errors() {
		if !errors.Is(one.Err, context.DeadlineExceeded) {
			return nil, one.Err
		}
	}
	return fetches.Records(), nil
}

// some gives what the next poll gives that gives anything.
func (s *sharer) some() (found []*kgo.Record) {
	s.c.Until("records", func() bool {
		found = s.poll()
		return len(found) > 0
	})
	return found
}

// hold gives so many records, which come at once as they were there before.
func (s *sharer) hold(count int) []*kgo.Record {
	found := s.some()
	compat.Same(len(found), count, "records in hand")
	return found
}

// mark acknowledges; sent, and confirmed when it comes back.
func (s *sharer) mark(status kgo.AckStatus, records ...*kgo.Record) {
	for _, one := range records {
		one.Ack(status)
	}
	compat.Same(s.flush(), []error(nil), "errors of acknowledgements")
}

// flush sends what is acknowledged and gives its errors.
func (s *sharer) flush() []error {
	compat.Must(s.client.FlushAcks(s.c.Go()))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	failed := s.failed
	s.failed = nil
	return failed
}

// take gives so many records, each acknowledged as it came.
func (s *sharer) take(count int, status kgo.AckStatus) (found []*kgo.Record) {
	s.c.Until(fmt.Sprint(count, " records"), func() bool {
		some := s.poll()
		s.mark(status, some...)
		found = append(found, some...)
		return len(found) >= count
	})
	return found
}

// nothingElse is available: a record that is produced now is the next one that comes.
func (s *sharer) nothingElse(topic string) {
	mark := []byte(s.c.TopicName())
	write(s.c, topic, "", compat.Record{Partition: 0, Value: mark})
	came := []string{}
	s.c.Until("the last record", func() bool {
		some := s.poll()
		s.mark(kgo.AckAccept, some...)
		for _, one := range some {
			came = append(came, string(one.Value))
		}
		return slices.ContainsFunc(some, func(one *kgo.Record) bool { return bytes.Equal(one.Value, mark) })
	})
	compat.Same(came, []string{string(mark)}, "what came instead of nothing")
}

// write produces in as few batches as there may be.
func write(c *compat.Context, topic, codec string, records ...compat.Record) {
	for n := range records {
		records[n].Topic = topic
	}
	producer := library{}.Producer(c, compat.Producing{Codec: codec, Linger: 20 * time.Millisecond})
	compat.Try(producer.Send(records...))
}

// written is a topic of one partition with so many records in it.
func written(c *compat.Context, count int) string {
	topic := c.Create(1)
	write(c, topic, "", compat.Sample(count, 100)...)
	return topic
}

func counts(records []*kgo.Record) (all []int32) {
	for _, one := range records {
		all = append(all, one.DeliveryCount())
	}
	return all
}

func offsets(records []*kgo.Record) (all []int64) {
	for _, one := range records {
		all = append(all, one.Offset)
	}
	return all
}

func span(from, to int64) (all []int64) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

func times(count int, value int32) []int32 { return slices.Repeat([]int32{value}, count) }

// shareGroup is a group's name, its configs set: from the earliest record unless they say otherwise.
func shareGroup(c *compat.Context, configs ...string) string {
	group := c.Group()
	configure(c, group, append([]string{"share.auto.offset.reset", "earliest"}, configs...)...)
	return group
}

// configure sets group configs, in pairs, and waits until they are in force.
func configure(c *compat.Context, group string, configs ...string) {
	wanted := map[string]string{}
	for n := 0; n < len(configs); n += 2 {
		wanted[configs[n]] = configs[n+1]
		code, words := alter(c, group, configs[n], &configs[n+1])
		compat.Check(code == 0, "setting %s: %d %s", configs[n], code, words)
	}
	c.Until(fmt.Sprint("the configs ", wanted), func() bool {
		found := groupConfigs(c, group)
		for name, value := range wanted {
			if found[name].Value == nil || *found[name].Value != value {
				return false
			}
		}
		return true
	})
}

// alter sets one group config, or takes it back; the server's error code and words.
func alter(c *compat.Context, group, name string, value *string) (int16, string) {
	entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	entry.Name, entry.Value = name, value
	if value == nil {
		entry.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	resource.Configs = append(resource.Configs, entry)
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	answer := compat.Try(request.RequestWith(c.Go(), c.Admin().(*admin).client)).Resources[0]
	if answer.ErrorMessage == nil {
		return answer.ErrorCode, ""
	}
	return answer.ErrorCode, *answer.ErrorMessage
}

func groupConfigs(c *compat.Context, group string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.Resources = append(request.Resources, resource)
	found := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, one := range compat.Try(request.RequestWith(c.Go(), c.Admin().(*admin).client)).Resources[0].Configs {
		found[one.Name] = one
	}
	return found
}

func shareAdmin(c *compat.Context) *kadm.Client { return c.Admin().(*admin).Client }
