package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const work = 10 * time.Millisecond // on each record of a burst

type burstFigures struct {
	Seconds float64 `json:"seconds"` // from the first record of the burst that is sent until the last one is accepted
	Most    int64   `json:"most"`    // records that one member got
	Least   int64   `json:"least"`
}

// burst: members that wait, each with a session, and then all records at once; a member takes 10 ms for each. With
// -single every record is a batch of its own, else all are one.
func burst(o *options) (any, error) {
	if err := makeTopic(o); err != nil {
		return nil, err
	}
	if err := configure(o, o.group); err != nil {
		return nil, err
	}
	linger, size := kgo.ProducerLinger(300*time.Millisecond), int32(1<<20)
	if o.single {
		// the smallest that the client allows, of which two records do not fit in
		linger, size = kgo.ProducerLinger(0), 512
		o.size = max(o.size, 300)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(o.address), kgo.DefaultProduceTopic(o.topic),
		linger, kgo.ProducerBatchMaxBytes(size), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	accepted := make([]counter, o.members)
	count := func() (sum int64) {
		for i := range accepted {
			sum += accepted[i].Load()
		}
		return sum
	}
	working := &atomic.Bool{}
	for i := range o.members {
		client, err := shareClient(o, o.group)
		if err != nil {
			return nil, err
		}
		defer client.CloseAllowingRebalance()
		go func() {
			for ctx.Err() == nil {
				fetches := client.PollFetches(ctx)
				if errs := fetches.Errors(); len(errs) > 0 && ctx.Err() == nil {
					cancel(errs[0].Err)
				}
				fetches.EachRecord(func(record *kgo.Record) {
					if working.Load() {
						time.Sleep(work)
					}
					record.Ack(kgo.AckAccept)
					accepted[i].Add(1)
				})
			}
		}()
	}
	wait := func(met func() bool, step func() error) error {
		for limit := time.Now().Add(o.limit); !met(); {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if time.Now().After(limit) {
				return fmt.Errorf("%d records were accepted after %s", count(), o.limit)
			}
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}
	// one by one, until each member has had some
	sent := int64(0)
	joined := func() bool {
		for i := range accepted {
			if accepted[i].Load() == 0 {
				return false
			}
		}
		return true
	}
	err = wait(joined, func() error {
		sent++
		return producer.ProduceSync(ctx, &kgo.Record{Value: make([]byte, o.size)}).FirstErr()
	})
	idle := func() error { time.Sleep(time.Millisecond); return nil }
	if err == nil {
		err = wait(func() bool { return count() >= sent }, idle)
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	before := make([]int64, o.members)
	for i := range accepted {
		before[i] = accepted[i].Load()
	}
	working.Store(true)
	begin := time.Now()
	for range o.records {
		producer.Produce(ctx, &kgo.Record{Value: make([]byte, o.size)}, func(_ *kgo.Record, err error) {
			if err != nil && !errors.Is(err, context.Canceled) {
				cancel(err)
			}
		})
	}
	if !o.single {
		// the burst begins when the batch leaves
		if err := producer.Flush(ctx); err != nil {
			return nil, err
		}
		begin = time.Now()
	}
	if err := wait(func() bool { return count() >= sent+int64(o.records) }, idle); err != nil {
		return nil, err
	}
	figures := &burstFigures{Seconds: round(time.Since(begin).Seconds(), 3), Least: int64(o.records)}
	for i := range accepted {
		got := accepted[i].Load() - before[i]
		figures.Most, figures.Least = max(figures.Most, got), min(figures.Least, got)
	}
	return figures, nil
}
