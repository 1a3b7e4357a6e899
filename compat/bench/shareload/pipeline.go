package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type pipelineFigures struct {
	MegabytesPerSecond float64 `json:"megabytes_per_second"` // of values that were read, written and committed
	Commits            int     `json:"commits"`
	CommitMS           float64 `json:"commit_ms"` // the median
	FillSeconds        float64 `json:"fill_seconds"`
}

// pipeline reads a filled topic in a group and writes it to another one, exactly once: offsets and records of each poll
// are one transaction. A third of the topic is the warm-up. At the end a reader of committed records counts.
func pipeline(o *options) (any, error) {
	seconds, err := prepare(o)
	if err != nil {
		return nil, err
	}
	figures := &pipelineFigures{FillSeconds: round(seconds, 3)}
	output := o.topic + "-out"
	if err := create(o, output, o.partitions); err != nil {
		return nil, err
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(o.address),
		kgo.TransactionalID("bench-"+o.topic),
		kgo.ConsumerGroup("bench-pipeline"),
		kgo.ConsumeTopics(o.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(int32(o.batch)),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(200_000),
	)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.limit, errors.New("the pipeline took too long"))
	defer cancel()
	var begin time.Time
	var samples []time.Duration
	done, before := 0, 0
	for done < o.records {
		fetches := session.PollRecords(ctx, 20_000)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records are through: %w", done, o.records, context.Cause(ctx))
		}
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		promise := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: output, Partition: record.Partition, Value: record.Value}, promise.Promise())
		})
		if err := promise.Err(); err != nil {
			return nil, fmt.Errorf("produce: %w", err)
		}
		from := time.Now()
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil || !committed {
			return nil, fmt.Errorf("a transaction was not committed (%w)", err)
		}
		done += fetches.NumRecords()
		switch {
		case !begin.IsZero():
			samples = append(samples, time.Since(from))
		case done >= o.records/3:
			begin, before = time.Now(), done
		}
	}
	if len(samples) == 0 {
		return nil, errors.New("all was through with the warm-up: more records")
	}
	figures.MegabytesPerSecond = round(float64(done-before)*float64(o.size)/1e6/time.Since(begin).Seconds(), 2)
	figures.Commits = len(samples)
	figures.CommitMS = percentilesOf(samples).P50
	written := *o
	written.topic = output
	return figures, countCommitted(ctx, &written, o.records)
}
