package main

import (
	"fmt"
	"sync"
	"time"
)

// Fetch with read_committed, of topics that were written in transactions.

type committedOptions struct {
	address, topic           string
	connections, partitions  int
	transactions, producers  int
	records, size            int // of each batch; a transaction has one in each partition
	abortedOf                int // each such one is aborted; 1: all
	under                    bool
	maxBytes                 int
	warmup, settle, duration time.Duration
}

// committed fills a topic by transactions and reads it. `under`: all of them lie within one more, which begins before
// and is committed behind them.
func committed(o committedOptions) (*result, error) {
	topic, err := prepareTopic(o.address, o.topic, o.partitions)
	if err != nil {
		return nil, err
	}
	all := make([]int32, o.partitions)
	for i := range all {
		all[i] = int32(i)
	}
	small := buildBatch(1, 1, time.Now())
	var around *transactor
	if o.under {
		if around, err = newTransactor(o.address, "bench-around"); err != nil {
			return nil, err
		}
		defer around.client.close()
		if err := around.add(o.topic, all); err != nil {
			return nil, err
		}
		if err := around.produce(o.topic, all, small); err != nil {
			return nil, err
		}
	}
	if err := fillByTransactions(o, all); err != nil {
		return nil, fmt.Errorf("filling the topic: %w", err)
	}
	if around != nil {
		if err := around.end(true); err != nil {
			return nil, err
		}
	}
	end, err := awaitStable(o.address, o.topic, all)
	if err != nil {
		return nil, err
	}
	j := &fetchJob{
		topic: topic, partitions: o.partitions, maxBytes: int32(o.maxBytes), end: end, committed: true,
		checked: make([]int, o.connections),
	}
	res, err := run(plan{
		address: o.address, connections: o.connections, depth: 1,
		warmup: o.warmup, settle: o.settle, duration: o.duration, inputSize: o.maxBytes + o.maxBytes/4 + 1<<20,
	}, j)
	if err != nil {
		return nil, err
	}
	res.Verified = res.Errors == 0
	return res, nil
}

func fillByTransactions(o committedOptions, partitions []int32) error {
	var all sync.WaitGroup
	failed := make(chan error, o.producers)
	for i := range o.producers {
		t, err := newTransactor(o.address, fmt.Sprintf("bench-fill-%d", i))
		if err != nil {
			return err
		}
		defer t.client.close()
		all.Add(1)
		go func() {
			defer all.Done()
			batch := buildBatch(o.records, o.size, time.Now())
			for n := i; n < o.transactions; n += o.producers {
				aborted := o.abortedOf > 0 && n%o.abortedOf == 0
				if err := t.once(o.topic, partitions, batch, !aborted); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	all.Wait()
	close(failed)
	return <-failed
}

// awaitStable waits until all that is written is decided: Kafka's markers come after the answer. It gives where each
// partition ends; it must be the same for all.
func awaitStable(address, topic string, partitions []int32) (int64, error) {
	c, err := connect(address)
	if err != nil {
		return 0, err
	}
	defer c.close()
	for range 600 {
		var sums [2]int64
		for i, level := range []int8{0, 1} {
			r, err := c.call(listOffsetsOf(topic, partitions, latest, level), true, 30*time.Second)
			if err != nil {
				return 0, fmt.Errorf("ListOffsets: %w", err)
			}
			if sums[i], err = parseListOffsets(r); err != nil {
				return 0, err
			}
		}
		if count := int64(len(partitions)); sums[0] == sums[1] {
			if sums[0]%count != 0 {
				return 0, fmt.Errorf("the partitions end at different offsets")
			}
			return sums[0] / count, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return 0, fmt.Errorf("after a minute not all of %s is decided", topic)
}

// endResult is the time of one end of a transaction over many partitions that had nothing before.
type endResult struct {
	Load       string  `json:"load"`
	Partitions int     `json:"partitions"`
	FirstMS    float64 `json:"first_end_ms"`
	SecondMS   float64 `json:"second_end_ms"`
	Errors     int64   `json:"errors"`
	Verified   bool    `json:"verified"`
}

// endOfMany commits two transactions with a record in each partition of a new topic.
func endOfMany(address, topic string, partitions, size int) (*endResult, error) {
	if _, err := prepareTopic(address, topic, partitions); err != nil {
		return nil, err
	}
	t, err := newTransactor(address, "bench-end")
	if err != nil {
		return nil, err
	}
	defer t.client.close()
	all := make([]int32, partitions)
	for i := range all {
		all[i] = int32(i)
	}
	batch := buildBatch(1, size, time.Now())
	res := &endResult{Partitions: partitions}
	for _, into := range []*float64{&res.FirstMS, &res.SecondMS} {
		if err := t.add(topic, all); err != nil {
			return nil, err
		}
		for first := 0; first < partitions; first += 500 {
			if err := t.produce(topic, all[first:min(first+500, partitions)], batch); err != nil {
				return nil, err
			}
		}
		begin := time.Now()
		if err := t.end(true); err != nil {
			return nil, err
		}
		*into = millis(time.Since(begin))
	}
	end, err := awaitStable(address, topic, all)
	if err != nil {
		return nil, err
	}
	// Two records and two markers.
	if end != 4 {
		return nil, fmt.Errorf("the partitions end at %d, not at 4", end)
	}
	res.Verified = true
	return res, nil
}
