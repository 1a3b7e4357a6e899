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

// workQueue works on what a poll gave, then says in one commit what became of it. The client was made with
// kgo.DisableAutoCommit() and kgo.BlockRebalanceOnPoll(): call client.AllowRebalance() behind it.
func workQueue(ctx context.Context, client *kgo.Client, fetches kgo.Fetches, handle func(*kgo.Record) error) error {
	ends, names := map[string]map[int32]kgo.EpochOffset{}, map[string]map[int32]string{}
	fetches.EachPartition(func(lane kgo.FetchTopicPartition) {
		said := ""
		for _, record := range lane.Records {
			switch err := handle(record); {
			case errors.Is(err, errHopeless):
				said += fmt.Sprintf(";d=%d", record.Offset) // a dead letter now
			case err != nil:
				said += fmt.Sprintf(";n:1000=%d", record.Offset) // again in a second
			}
		}
		if count := len(lane.Records); count > 0 {
			if ends[lane.Topic] == nil {
				ends[lane.Topic], names[lane.Topic] = map[int32]kgo.EpochOffset{}, map[int32]string{}
			}
			ends[lane.Topic][lane.Partition] = kgo.EpochOffset{Epoch: -1, Offset: lane.Records[count-1].Offset + 1}
			if said != "" {
				names[lane.Topic][lane.Partition] = "ack1" + said
			}
		}
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
