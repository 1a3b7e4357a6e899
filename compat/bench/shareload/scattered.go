package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type scatteredFigures struct {
	Late         percentiles `json:"late_ms"`
	Behind       float64     `json:"behind_seconds"`
	EarlyPercent float64     `json:"early_percent"`
	Produce      percentiles `json:"produce_ms"`
	Looking      percentiles `json:"produce_while_looking_ms"`
	Produced     int         `json:"produced"`
	Records      int         `json:"records"`
	FillSeconds  float64     `json:"fill_seconds"`
}

const scatteredBatch = 10_000

// otherEvery is how often the other client sends one record and waits for the answer.
const otherEvery = 5 * time.Millisecond

// scattered: lz4 batches of 10,000 records, each due at a time of its own within the duration, so that what falls due in
// a moment lies a record here, a record there in all batches. The members read it before the first is due. Beside them
// another client produces to a topic of its own.
func scattered(o *options) (any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	other := *o
	other.topic, other.partitions = o.topic+"-other", 1
	if err := makeTopic(&other); err != nil {
		return nil, err
	}
	if err := configure(o, o.group); err != nil {
		return nil, err
	}
	figures := &scatteredFigures{Records: o.records / scatteredBatch * scatteredBatch}
	began := time.Now()
	// milliseconds: a due time has no more, and lateness is counted from it
	begin := time.UnixMilli(began.Add(o.warmup).UnixMilli())
	dues, err := fillScattered(o, begin)
	if err != nil {
		return nil, err
	}
	figures.FillSeconds = round(time.Since(began).Seconds(), 2)
	if time.Until(begin) < 0 {
		return nil, fmt.Errorf("the first record was due before all were sent, which took %.1f s", figures.FillSeconds)
	}

	limit, stop := context.WithDeadline(context.Background(), begin.Add(o.duration+o.limit))
	defer stop()
	ctx, cancel := context.WithCancelCause(limit)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(figures.Records))
	var running sync.WaitGroup
	late := make([][]time.Duration, o.members)
	early := make([]int, o.members)
	seen := make([]atomic.Bool, figures.Records)
	var last atomic.Int64
	for i := range o.members {
		client, err := shareClient(o, o.group, kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				cancel(fmt.Errorf("an acknowledgement was refused: %w", err))
			}
		}))
		if err != nil {
			return nil, err
		}
		defer client.CloseAllowingRebalance()
		running.Go(func() {
			for ctx.Err() == nil {
				fetches := client.PollFetches(ctx)
				now := time.Now()
				if ctx.Err() != nil {
					return
				}
				if errs := fetches.Errors(); len(errs) > 0 {
					cancel(errs[0].Err)
					return
				}
				fetches.EachRecord(func(record *kgo.Record) {
					number := binary.BigEndian.Uint64(record.Value)
					if number >= uint64(len(seen)) || seen[number].Swap(true) {
						cancel(fmt.Errorf("record %d came twice", number))
						return
					}
					record.Ack(kgo.AckAccept)
					took := now.Sub(dues[number])
					if took < 0 {
						early[i]++
					}
					late[i] = append(late[i], took)
				})
				if number := int64(fetches.NumRecords()); number > 0 {
					last.Store(now.UnixNano())
					if left.Add(-number) == 0 {
						cancel(nil)
					}
				}
			}
		})
	}
	looking, serving, err := produceBeside(ctx, &other, begin)
	if err != nil {
		cancel(err)
	}
	running.Wait()
	if number := left.Load(); number > 0 && limit.Err() != nil {
		return nil, fmt.Errorf("%d of %d records had not come in time", number, figures.Records)
	}
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	var all []time.Duration
	sum := 0
	for i := range late {
		all = append(all, late[i]...)
		sum += early[i]
	}
	figures.Late = percentilesOf(all)
	figures.EarlyPercent = round(100*float64(sum)/float64(figures.Records), 3)
	figures.Behind = round(time.Unix(0, last.Load()).Sub(begin.Add(o.duration)).Seconds(), 3)
	figures.Looking, figures.Produce, figures.Produced = percentilesOf(looking), percentilesOf(serving), len(serving)
	return figures, nil
}

// fillScattered sends the batches and answers when each record is due.
func fillScattered(o *options, begin time.Time) ([]time.Time, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(o.address),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(16<<20),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.MaxBufferedRecords(2*scatteredBatch),
		kgo.ManualFlushing(), // so that a batch is as long as it is meant to be
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	dice := rand.New(rand.NewSource(1))
	dues := make([]time.Time, o.records/scatteredBatch*scatteredBatch)
	var failed atomic.Pointer[error]
	for i := range dues {
		dues[i] = begin.Add(time.Duration(dice.Int63n(o.duration.Milliseconds())) * time.Millisecond)
		value := make([]byte, max(o.size, 8))
		dice.Read(value[:len(value)/2]) // half of it can be compressed
		binary.BigEndian.PutUint64(value, uint64(i))
		record := &kgo.Record{
			Topic: o.topic, Partition: int32(i / scatteredBatch % o.partitions), Value: value,
			Headers: []kgo.RecordHeader{{
				Key: "pulsar-deliver-at", Value: strconv.AppendInt(nil, dues[i].UnixMilli(), 10),
			}},
		}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
		if i%scatteredBatch == scatteredBatch-1 {
			if err := client.Flush(context.Background()); err != nil {
				return nil, err
			}
		}
	}
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return dues, nil
}

// produceBeside sends records one by one until the context ends: how long each took, before `begin` and from then on.
func produceBeside(ctx context.Context, o *options, begin time.Time) (before, from []time.Duration, err error) {
	client, err := producer(o, kgo.ProducerLinger(0))
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	value := make([]byte, o.size)
	next := time.Now()
	for ctx.Err() == nil {
		time.Sleep(time.Until(next))
		sent := time.Now()
		answer := client.ProduceSync(ctx, &kgo.Record{Topic: o.topic, Value: value})
		if ctx.Err() != nil {
			break
		}
		if err := answer.FirstErr(); err != nil {
			return nil, nil, fmt.Errorf("the other client: %w", err)
		}
		if took := time.Since(sent); sent.Before(begin) {
			before = append(before, took)
		} else {
			from = append(from, took)
		}
		next = next.Add(otherEvery)
		if now := time.Now(); next.Before(now) {
			next = now
		}
	}
	return before, from, nil
}
