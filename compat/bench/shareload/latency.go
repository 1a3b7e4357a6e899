package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
	Min float64 `json:"min"`
}

func percentilesOf(samples []time.Duration) percentiles {
	slices.Sort(samples)
	at := func(share float64) float64 {
		if len(samples) == 0 {
			return 0
		}
		rank := int(math.Ceil(share*float64(len(samples)))) - 1
		return round(float64(samples[max(rank, 0)])/1e6, 3)
	}
	return percentiles{P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1), Min: at(0)}
}

type latencyFigures struct {
	Latency      percentiles `json:"latency_ms"`
	Early        int         `json:"early"`
	EarlyPercent float64     `json:"early_percent"`
	Records      int         `json:"records"`
}

// latency: one producer without linger, one member; from just before the record is handed to the producer until the
// member's poll returns with it.
func latency(o *options) (any, error) {
	return steady(o, func(i int, now time.Time) (*kgo.Record, time.Time) { return &kgo.Record{}, now })
}

// delayed: each record is due 0.5 to 2.5 s after it is published; lateness is from then until poll returns with it.
// The due time has milliseconds, and it is what lateness is counted from.
func delayed(o *options) (any, error) {
	return steady(o, func(i int, now time.Time) (*kgo.Record, time.Time) {
		due := time.UnixMilli(now.UnixMilli() + 500 + int64(i*7919%2000))
		header := kgo.RecordHeader{Key: "pulsar-deliver-at", Value: strconv.AppendInt(nil, due.UnixMilli(), 10)}
		return &kgo.Record{Headers: []kgo.RecordHeader{header}}, due
	})
}

// subscriber is the one member: of a share group, which is to acknowledge each record, or of the group of a queue topic.
func subscriber(o *options, failed func(error)) (*kgo.Client, error) {
	if o.lanes > 0 {
		return committing(o, failed)
	}
	return shareClient(o, o.group, kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
		if err := results.Error(); err != nil {
			failed(err)
		}
	}))
}

// steady publishes at the rate and takes the time of each delivery after the warm-up.
func steady(o *options, compose func(i int, now time.Time) (*kgo.Record, time.Time)) (any, error) {
	if err := makeAll(o); err != nil {
		return nil, err
	}
	sender, err := producer(o, kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	receiver, err := subscriber(o, cancel)
	if err != nil {
		return nil, err
	}
	defer receiver.CloseAllowingRebalance()

	skip := int(o.warmup.Seconds() * float64(o.rate))
	total := skip + int(o.duration.Seconds()*float64(o.rate))
	padding := make([]byte, max(o.size-16, 0))
	var joined atomic.Bool
	publish := func(number int64, record *kgo.Record, due time.Time) {
		value := binary.BigEndian.AppendUint64(make([]byte, 0, o.size), uint64(number))
		record.Value = append(binary.BigEndian.AppendUint64(value, uint64(due.UnixNano())), padding...)
		record.Topic, record.Partition = o.topic, int32(number&math.MaxInt32%int64(o.partitions))
		sender.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				cancel(err)
			}
		})
	}
	go func() {
		runtime.LockOSThread() // the schedule is kept by the kernel's clock, not by Go's timers
		for !joined.Load() && ctx.Err() == nil {
			publish(-1, &kgo.Record{}, time.Now()) // until the member is there
			time.Sleep(100 * time.Millisecond)
		}
		start := time.Now()
		for i := range total {
			if wait := time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(o.rate))); wait > 0 {
				pause := syscall.NsecToTimespec(int64(wait))
				_ = syscall.Nanosleep(&pause, nil)
			}
			now := time.Now()
			record, due := compose(i, now)
			publish(int64(i), record, due)
		}
	}()

	figures := &latencyFigures{}
	samples := make([]time.Duration, 0, total-skip)
	seen := make([]bool, total)
	deadline := time.Now().Add(45*time.Second + o.warmup + o.duration + o.limit)
	limit, stop := context.WithDeadline(ctx, deadline)
	defer stop()
	for left := total; left > 0; {
		fetches := receiver.PollFetches(limit)
		now := time.Now()
		if limit.Err() != nil {
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			return nil, fmt.Errorf("%d of %d records had not come in time", left, total)
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		var failure error
		fetches.EachRecord(func(record *kgo.Record) {
			joined.Store(true)
			if o.lanes == 0 {
				record.Ack(kgo.AckAccept)
			}
			number := int64(binary.BigEndian.Uint64(record.Value))
			if number < 0 {
				return
			}
			late := now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(record.Value[8:]))))
			if number >= int64(total) || seen[number] {
				failure = fmt.Errorf("record %d came twice", number)
				return
			}
			seen[number] = true
			left--
			if late < 0 {
				figures.Early++
			}
			if number >= int64(skip) {
				samples = append(samples, late)
			}
		})
		if failure != nil {
			return nil, failure
		}
	}
	figures.Latency, figures.Records = percentilesOf(samples), len(samples)
	figures.EarlyPercent = round(100*float64(figures.Early)/float64(total), 3)
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return figures, nil
}

type firstFigures struct {
	First percentiles `json:"first_ms"`
}

// first: members one after another, each new and in a group of its own, on a topic that has records. The first of all
// does not count: it finds a server that never saw a share group.
func first(o *options) (any, error) {
	if _, err := prepare(o); err != nil {
		return nil, err
	}
	var samples []time.Duration
	for try := range o.tries + 1 {
		group := fmt.Sprintf("%s-%d", o.group, try)
		if err := configure(o, group); err != nil {
			return nil, err
		}
		begin := time.Now()
		client, err := shareClient(o, group)
		if err != nil {
			return nil, err
		}
		limit, cancel := context.WithTimeout(context.Background(), o.limit)
		for {
			fetches := client.PollFetches(limit)
			if errs := fetches.Errors(); len(errs) > 0 {
				cancel()
				return nil, errs[0].Err
			}
			if fetches.NumRecords() > 0 {
				break
			}
		}
		cancel()
		if try > 0 {
			samples = append(samples, time.Since(begin))
		}
		client.MarkAcks(kgo.AckAccept)
		client.CloseAllowingRebalance()
	}
	return &firstFigures{First: percentilesOf(samples)}, nil
}
