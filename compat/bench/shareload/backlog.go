package main

import (
	"context"
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type backlogFigures struct {
	Records          int64   `json:"records"`
	Seconds          float64 `json:"seconds"`
	RecordsPerSecond float64 `json:"records_per_second"`
	Released         int64   `json:"released"`
	JoinSeconds      float64 `json:"join_seconds"`
	FillSeconds      float64 `json:"fill_seconds"`
	CPUSeconds       float64 `json:"generator_cpu_seconds"`
	// accepted in each second from the moment on that all had joined
	Series []int64 `json:"series"`
}

// backlog reads a filled topic with all members. The window begins when all have had a record and the warm-up is over;
// with -all it is everything from the joining on until the last record is accepted.
func backlog(o *options) (any, error) {
	seconds, err := prepare(o)
	if err != nil {
		return nil, err
	}
	figures := &backlogFigures{FillSeconds: round(seconds, 3)}
	c := newCrew(o)
	begin := time.Now()
	err = c.start(func(record *kgo.Record) kgo.AckStatus {
		if o.releaseEvery > 0 && record.Offset%int64(o.releaseEvery) == 0 && record.DeliveryCount() == 1 {
			return kgo.AckRelease
		}
		return kgo.AckAccept
	})
	if err == nil {
		figures.JoinSeconds = round(time.Since(begin).Seconds(), 3)
		err = c.measure(figures)
	}
	if failure := c.finish(); failure != nil {
		return nil, failure
	}
	if err != nil {
		return nil, err
	}
	figures.Released = c.released.Load()
	return figures, nil
}

func (c *crew) measure(figures *backlogFigures) error {
	o := c.o
	total, everyone := o.counted(), time.Now()
	warm := func() bool {
		return o.all || time.Since(everyone) >= o.warmup || c.count() >= total/3
	}
	if err := c.until(warm, everyone, figures); err != nil {
		return err
	}
	// in -all what the members hold at the gate belongs to it
	start, before, cpu := time.Now(), c.count(), cpuSeconds()
	if o.all {
		before = 0
	}
	done := func() bool {
		count := c.count()
		if count >= total {
			return true
		}
		enough := time.Since(start) >= o.duration && count-before >= int64(o.atLeast)
		return !o.all && (enough || time.Since(start) >= o.limit)
	}
	if err := c.until(done, everyone, figures); err != nil {
		return err
	}
	figures.Seconds = round(time.Since(start).Seconds(), 3)
	figures.Records = c.count() - before
	figures.RecordsPerSecond = round(float64(figures.Records)/figures.Seconds, 1)
	figures.CPUSeconds = round(cpuSeconds()-cpu, 3)
	if !o.all && figures.Seconds < o.duration.Seconds() {
		return fmt.Errorf("%d records lasted only %.1f s of %s: more -records", total, figures.Seconds, o.duration)
	}
	return nil
}

// until looks every few milliseconds, counts each second, and fails after twice the limit.
func (c *crew) until(met func() bool, since time.Time, figures *backlogFigures) error {
	limit := time.Now().Add(2 * c.o.limit)
	for !met() {
		if c.context.Err() != nil {
			return context.Cause(c.context)
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d of %d records were accepted in %s", c.count(), c.o.records, 2*c.o.limit)
		}
		time.Sleep(2 * time.Millisecond)
		if second := int(time.Since(since).Seconds()); second > len(figures.Series) {
			seen := c.count()
			for _, one := range figures.Series {
				seen -= one
			}
			figures.Series = append(figures.Series, seen)
		}
	}
	return nil
}

type deadFigures struct {
	Seconds float64 `json:"seconds"` // from the moment on that all had joined until the last one is dead
	Dead    int64   `json:"dead"`
}

// dead releases every n-th record at each delivery until the server has given it up.
func dead(o *options) (any, error) {
	if _, err := prepare(o); err != nil {
		return nil, err
	}
	wanted := int64(0)
	for partition := range o.partitions {
		// offsets 0, n, 2n, … of each partition, which gets the records in turn
		size := (o.records - partition + o.partitions - 1) / o.partitions
		wanted += int64((size + o.releaseEvery - 1) / o.releaseEvery)
	}
	watcher, err := kgo.NewClient(kgo.SeedBrokers(o.address), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return nil, err
	}
	defer watcher.Close()
	c := newCrew(o)
	err = c.start(func(record *kgo.Record) kgo.AckStatus {
		if record.Offset%int64(o.releaseEvery) == 0 {
			return kgo.AckRelease
		}
		return kgo.AckAccept
	})
	figures := &deadFigures{}
	begin := time.Now()
	for err == nil {
		figures.Dead, _, err = endOffsets(watcher, o.deadLetters, o.partitions)
		figures.Seconds = round(time.Since(begin).Seconds(), 3)
		if figures.Dead >= wanted && c.count() >= int64(o.records)-wanted {
			break
		}
		if time.Since(begin) > o.limit {
			err = fmt.Errorf("%d of %d were dead and %d accepted after %s", figures.Dead, wanted, c.count(), o.limit)
		}
		if c.context.Err() != nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if failure := c.finish(); failure != nil {
		return nil, failure
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	if figures.Dead, _, err = endOffsets(watcher, o.deadLetters, o.partitions); err == nil && figures.Dead != wanted {
		err = fmt.Errorf("%d dead letters, and %d records were given up", figures.Dead, wanted)
	}
	return figures, err
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}
