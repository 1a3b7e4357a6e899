package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// joinLimit: those that have records hold them until all have some, which must not take longer than a lock (30 s).
const joinLimit = 25 * time.Second

// crew is the members of one share group, what they have accepted, and what went wrong.
type crew struct {
	o        *options
	members  []*member
	ledgers  []ledger
	joined   sync.WaitGroup
	gate     chan struct{} // opens when every member has had a record
	accepted []counter     // of each member
	released atomic.Int64
	context  context.Context
	cancel   context.CancelCauseFunc
	running  sync.WaitGroup
}

// counter has a cache line of its own.
type counter struct {
	atomic.Int64
	_ [56]byte
}

type member struct {
	client *kgo.Client
	index  int
}

// ledger is what has been accepted of one partition.
type ledger struct {
	sync.Mutex
	accepted []uint64
	keys     []int64 // by key: the last offset that came, plus one
}

// judge says what becomes of a record at this delivery.
type judge func(record *kgo.Record) kgo.AckStatus

func newCrew(o *options) *crew {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &crew{
		o: o, gate: make(chan struct{}), accepted: make([]counter, o.members),
		ledgers: make([]ledger, o.partitions), context: ctx, cancel: cancel,
	}
	for i := range c.ledgers {
		c.ledgers[i].accepted = make([]uint64, o.records/64+1)
		c.ledgers[i].keys = make([]int64, o.keys)
	}
	return c
}

func shareClient(o *options, group string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(o.address), kgo.ShareGroup(group), kgo.ConsumeTopics(o.topic),
	}, more...)...)
}

// start makes the members and lets each wait with its first records until all have some.
func (c *crew) start(decide judge) error {
	c.joined.Add(c.o.members)
	for i := range c.o.members {
		client, err := shareClient(c.o, c.o.group, kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				c.cancel(fmt.Errorf("an acknowledgement was refused: %w", err))
			}
		}))
		if err != nil {
			return err
		}
		c.members = append(c.members, &member{client: client, index: i})
	}
	for _, m := range c.members {
		c.running.Go(func() {
			if err := c.consume(m, decide); err != nil {
				c.cancel(err)
			}
		})
	}
	everyone := make(chan struct{})
	go func() { c.joined.Wait(); close(everyone) }()
	select {
	case <-everyone:
		close(c.gate)
		return nil
	case <-c.context.Done():
		return context.Cause(c.context)
	case <-time.After(joinLimit):
		return fmt.Errorf("%s passed before every member had a record: may the members hold so many of a partition"+
			" (share.partition.max.record.locks)?", joinLimit)
	}
}

func (c *crew) consume(m *member, decide judge) error {
	waited := false
	for {
		fetches := m.client.PollFetches(c.context)
		if c.context.Err() != nil {
			return nil
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return errs[0].Err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if !waited {
			waited = true
			c.joined.Done()
			select {
			case <-c.gate:
			case <-c.context.Done():
				return nil
			}
		}
		var failure error
		fetches.EachPartition(func(found kgo.FetchTopicPartition) {
			if failure == nil {
				failure = c.settle(m, found.Partition, found.Records, decide)
			}
		})
		if failure != nil {
			return failure
		}
	}
}

// settle acknowledges the records of a partition one by one; each may be accepted once only.
func (c *crew) settle(m *member, partition int32, records []*kgo.Record, decide judge) error {
	ledger := &c.ledgers[partition]
	accepted, released := 0, 0
	ledger.Lock()
	defer ledger.Unlock()
	for _, record := range records {
		word, bit := record.Offset/64, uint64(1)<<(record.Offset%64)
		if int(word) >= len(ledger.accepted) || ledger.accepted[word]&bit != 0 {
			return fmt.Errorf("partition %d, offset %d: came again after it had been accepted", partition, record.Offset)
		}
		if c.o.ordered {
			key, err := keyNumber(record.Key)
			if err != nil || key >= len(ledger.keys) {
				return fmt.Errorf("partition %d, offset %d: a key that was not written: %q", partition, record.Offset, record.Key)
			}
			if record.Offset < ledger.keys[key] {
				return fmt.Errorf("partition %d, offset %d: a later record of %s came before it", partition, record.Offset, record.Key)
			}
			ledger.keys[key] = record.Offset + 1
		}
		status := decide(record)
		if status == kgo.AckAccept {
			ledger.accepted[word] |= bit
			if !c.o.hasHot() || string(record.Key) != hotKey {
				accepted++
			}
		} else {
			released++
		}
		record.Ack(status)
	}
	c.accepted[m.index].Add(int64(accepted))
	if released > 0 {
		c.released.Add(int64(released))
	}
	return nil
}

func (c *crew) count() int64 {
	var sum int64
	for i := range c.accepted {
		sum += c.accepted[i].Load()
	}
	return sum
}

// finish flushes, leaves, and says what failed.
func (c *crew) finish() error {
	c.cancel(nil)
	c.running.Wait()
	cause := context.Cause(c.context)
	if errors.Is(cause, context.Canceled) {
		cause = nil
	}
	for _, m := range c.members {
		if cause == nil {
			limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			cause = m.client.FlushAcks(limit)
			cancel()
		}
		m.client.CloseAllowingRebalance()
	}
	return cause
}
