package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"magnetar/compat"
)

// page: begin

var errHopeless = errors.New("no other try will do")

// spans are neighbours of one fate each. 80 are sure to fit into the 4,096 characters of a commit's metadata.
type spans []struct {
	verb        string
	first, last int64
}

func (s *spans) name(verb string, offset int64) {
	if end := len(*s) - 1; end >= 0 && (*s)[end].verb == verb && (*s)[end].last == offset-1 {
		(*s)[end].last = offset
		return
	}
	*s = append(*s, spans{{verb, offset, offset}}...)
}

func (s spans) String() (names string) {
	for _, one := range s {
		names += fmt.Sprintf(";%s=%d-%d", one.verb, one.first, one.last)
	}
	if names == "" {
		return ""
	}
	return "ack1" + names
}

// workQueue works on what a poll gave, then says in one commit what became of it. The client was made with
// kgo.DisableAutoCommit() and kgo.BlockRebalanceOnPoll(): call client.AllowRebalance() behind it.
func workQueue(ctx context.Context, client *kgo.Client, fetches kgo.Fetches, handle func(*kgo.Record) error) error {
	type places = map[string]map[int32]kgo.EpochOffset
	begins, ends, names, full := places{}, places{}, map[string]map[int32]string{}, false
	fetches.EachPartition(func(lane kgo.FetchTopicPartition) {
		if len(lane.Records) == 0 {
			return
		}
		said, end := spans{}, int64(0)
		for _, record := range lane.Records {
			switch err := handle(record); {
			case errors.Is(err, errHopeless):
				said.name("d", record.Offset) // a dead letter now
			case err != nil:
				said.name("n:1000", record.Offset) // again in a second
			}
			end = record.Offset + 1
			if len(said) == 80 {
				full = true
				break
			}
		}
		if ends[lane.Topic] == nil {
			begins[lane.Topic], ends[lane.Topic] = map[int32]kgo.EpochOffset{}, map[int32]kgo.EpochOffset{}
			names[lane.Topic] = map[int32]string{}
		}
		begins[lane.Topic][lane.Partition] = kgo.EpochOffset{Epoch: -1, Offset: lane.Records[0].Offset}
		ends[lane.Topic][lane.Partition] = kgo.EpochOffset{Epoch: -1, Offset: end}
		names[lane.Topic][lane.Partition] = said.String()
	})
	if len(ends) == 0 {
		return nil
	}
	naming := kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for _, topic := range request.Topics {
			for n := range topic.Partitions {
				metadata := names[topic.Topic][topic.Partitions[n].Partition]
				topic.Partitions[n].Metadata = &metadata
			}
		}
		return nil
	})
	var failed error
	client.CommitOffsetsSync(naming, ends, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
	) {
		failed = err
		if answer != nil {
			for _, topic := range answer.Topics {
				for _, one := range topic.Partitions {
					failed = errors.Join(failed, kerr.ErrorForCode(one.ErrorCode))
				}
			}
		}
	})
	if failed != nil {
		client.SetOffsets(begins) // nothing was said: the next commit must not acknowledge it
	} else if full {
		client.SetOffsets(ends) // the rest comes with the next poll
	}
	return failed
}

// page: end

// WorkQueue is the page's program at work.
func (library) WorkQueue(c *compat.Context, group, topic string, handle func(string) string) func() {
	client := connect(c, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			_ = workQueue(context.Background(), client, fetches, func(record *kgo.Record) error {
				switch handle(string(record.Value)) {
				case "hopeless":
					return errHopeless
				case "again":
					return errors.New("not now")
				}
				return nil
			})
			client.AllowRebalance()
		}
	}()
	return func() {
		stop()
		<-done
	}
}
