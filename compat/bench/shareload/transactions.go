package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type transactionFigures struct {
	PerSecond    float64     `json:"transactions_per_second"`
	Latency      percentiles `json:"latency_ms"` // from begin to the answer of its end
	Transactions int         `json:"transactions"`
}

// transactions: one producer, one transaction after another, each with a record in every partition; then a reader of
// committed records counts that all are there.
func transactions(o *options) (any, error) {
	if err := create(o, o.topic, o.partitions); err != nil {
		return nil, err
	}
	client, err := producer(o, kgo.TransactionalID("bench-"+o.topic), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(
		context.Background(), o.warmup+o.duration+o.limit, errors.New("transactions took too long"))
	defer cancel()
	value := make([]byte, o.size)
	figures := &transactionFigures{}
	once := func() (time.Duration, error) {
		begin := time.Now()
		if err := client.BeginTransaction(); err != nil {
			return 0, err
		}
		records := make([]*kgo.Record, o.partitions)
		for i := range records {
			records[i] = &kgo.Record{Topic: o.topic, Partition: int32(i), Value: value}
		}
		if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return 0, fmt.Errorf("produce: %w", err)
		}
		if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
			return 0, fmt.Errorf("commit: %w", err)
		}
		return time.Since(begin), nil
	}
	committed := 0
	for end := time.Now().Add(o.warmup); time.Now().Before(end); committed++ {
		if _, err := once(); err != nil {
			return nil, err
		}
	}
	var samples []time.Duration
	begin := time.Now()
	for time.Since(begin) < o.duration {
		took, err := once()
		if err != nil {
			return nil, err
		}
		samples = append(samples, took)
	}
	seconds := time.Since(begin).Seconds()
	figures.Transactions = len(samples)
	figures.PerSecond = round(float64(len(samples))/seconds, 1)
	figures.Latency = percentilesOf(samples)
	return figures, countCommitted(ctx, o, (committed+len(samples))*o.partitions)
}

// countCommitted reads until so many records have come, and looks whether there are more.
func countCommitted(ctx context.Context, o *options, wanted int) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.address),
		kgo.ConsumeTopics(o.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for read := 0; read < wanted; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d of %d committed records read: %w", read, wanted, context.Cause(ctx))
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		read += fetches.NumRecords()
		if read > wanted {
			return fmt.Errorf("%d records read, %d were committed", read, wanted)
		}
	}
	return nil
}
