package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitEach is how often lanes are committed by clients that do it by the clock, as in the other loads of queue topics.
const commitEach = time.Second

// queue is the topic whose partitions are the lanes of the group's subscription.
func (o *options) queue() string { return o.topic + "-" + o.group + "-QUEUE" }

// makeQueue makes the queue topic, with what the group's configs say.
func makeQueue(o *options) error {
	return create(o, o.queue(), o.lanes)
}

// laneClient is a member of the consumer group that reads the lanes. It commits nothing unless it is told to.
func laneClient(o *options, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(o.address), kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.queue()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
	}, more...)...)
}

// committing is the same with franz-go's auto-commit, which commits what earlier polls gave. failed hears of a commit
// that was refused.
func committing(o *options, failed func(error)) (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(o.address), kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(o.queue()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(commitEach),
		kgo.AutoCommitCallback(func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			if err == nil {
				err = refusal(answer)
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				failed(fmt.Errorf("a commit was refused: %w", err))
			}
		}),
	)
}

func refusal(answer *kmsg.OffsetCommitResponse) error {
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

// commitPolled commits all that was polled, and waits for the answer. A group that is just being shared out anew takes
// it later.
func commitPolled(ctx context.Context, client *kgo.Client) error {
	err := client.CommitUncommittedOffsets(ctx)
	switch {
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, context.Canceled):
		return nil
	}
	return err
}
