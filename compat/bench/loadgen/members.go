package main

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// A group of KIP-848 consumers, each on its own connection: all join at once and get their partitions; then more join,
// one after another. A member says at once what it has given up or taken, as real clients do, and else keeps to the
// interval that it was told.

type membersResult struct {
	Load       string  `json:"load"`
	Members    int     `json:"members"`
	Partitions int     `json:"partitions"`
	SettleMS   float64 `json:"settled_ms"`
	JoinMS     float64 `json:"join_settled_ms"` // the median of those that joined later
	WorstMS    float64 `json:"join_worst_ms"`
	Heartbeats int64   `json:"heartbeats"` // until all had settled
	Errors     int64   `json:"errors"`
	Verified   bool    `json:"verified"`
}

// ownership is what the members say they have.
type ownership struct {
	sync.Mutex
	owner   []int // of each partition, -1 of nobody
	free    int
	count   map[int]int // partitions of each member
	beats   int64
	err     error
	changed chan struct{}
}

func newOwnership(partitions int) *ownership {
	o := &ownership{owner: make([]int, partitions), free: partitions, count: map[int]int{}, changed: make(chan struct{}, 1)}
	for i := range o.owner {
		o.owner[i] = -1
	}
	return o
}

func (o *ownership) tell() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *ownership) fail(err error) {
	o.Lock()
	if o.err == nil {
		o.err = err
	}
	o.Unlock()
	o.tell()
}

// change says what a member has now instead of what it had. A partition of two is an error.
func (o *ownership) change(member int, had, has []int32) {
	o.Lock()
	defer o.Unlock()
	defer o.tell()
	for _, partition := range had {
		if !slices.Contains(has, partition) && o.owner[partition] == member {
			o.owner[partition] = -1
			o.free++
		}
	}
	for _, partition := range has {
		if slices.Contains(had, partition) {
			continue
		}
		if other := o.owner[partition]; other >= 0 && o.err == nil {
			o.err = fmt.Errorf("partition %d is of the members %d and %d", partition, other, member)
		}
		o.owner[partition] = member
		o.free--
	}
	o.count[member] = len(has)
}

// await waits until each partition has an owner, and each member as many as all others, or one more.
func (o *ownership) await(members int, limit time.Duration) error {
	deadline := time.After(limit)
	for {
		o.Lock()
		err, free, with := o.err, o.free, 0
		fair := len(o.owner) / members
		least, most := math.MaxInt, 0
		for _, count := range o.count {
			least, most = min(least, count), max(most, count)
			with++
		}
		o.Unlock()
		if err != nil {
			return err
		}
		if free == 0 && with == members && least >= fair && most <= fair+1 {
			return nil
		}
		select {
		case <-o.changed:
		case <-deadline:
			return fmt.Errorf("%d members have between %d and %d partitions after %v, %d are of nobody", with, least, most, limit, free)
		}
	}
}

// consumer is a member.
type consumer struct {
	client *client
	group  string
	topic  topicInfo
	index  int
	id     string
	epoch  int32
	owned  []int32
}

// beat is one heartbeat: whether what it has changed, and the interval that it was told. `all`: it says everything.
func (c *consumer) beat(all bool) (bool, time.Duration, error) {
	w := request(apiConsumerGroupHeartbeat, 1, true)
	w.compactString(c.group)
	w.compactString(c.id)
	w.i32(c.epoch)
	w.compactNull() // instance
	w.compactNull() // rack
	if c.epoch == 0 {
		w.i32(60_000)
		w.compactArray(1)
		w.compactString(c.topic.name)
	} else {
		w.i32(-1)
		w.compactNull()
	}
	w.compactNull() // expression
	w.compactNull() // assignor
	switch {
	case !all:
		w.compactNull()
	case len(c.owned) == 0:
		w.compactArray(0)
	default:
		w.compactArray(1)
		w.raw(c.topic.id[:])
		w.compactArray(len(c.owned))
		for _, partition := range c.owned {
			w.i32(partition)
		}
		w.tags()
	}
	w.tags()
	r, err := c.client.call(w, true, time.Minute)
	if err != nil {
		return false, 0, fmt.Errorf("ConsumerGroupHeartbeat: %w", err)
	}
	r.i32()
	code, message := r.i16(), r.compactString()
	r.compactBytes()
	c.epoch = r.i32()
	interval := time.Duration(r.i32()) * time.Millisecond
	if code != 0 {
		return false, 0, fmt.Errorf("ConsumerGroupHeartbeat: error %d %s", code, message)
	}
	if r.i8() < 0 {
		return false, interval, nil
	}
	var assigned []int32
	for n := r.compactArray(); n > 0 && !r.bad; n-- {
		r.take(16)
		for m := r.compactArray(); m > 0 && !r.bad; m-- {
			assigned = append(assigned, r.i32())
		}
		r.tags()
	}
	if r.bad {
		return false, 0, fmt.Errorf("ConsumerGroupHeartbeat: the answer is cut short")
	}
	slices.Sort(assigned)
	changed := !slices.Equal(assigned, c.owned)
	c.owned = assigned
	return changed, interval, nil
}

// live joins and goes on until it is to stop.
func (c *consumer) live(all *ownership, stop <-chan struct{}) {
	changed := true
	for {
		had := c.owned
		now, interval, err := c.beat(changed)
		if err != nil {
			all.fail(fmt.Errorf("member %d: %w", c.index, err))
			return
		}
		all.Lock()
		all.beats++
		all.Unlock()
		if changed = now; changed {
			all.change(c.index, had, c.owned)
			// what it has now is said at once
			continue
		}
		select {
		case <-stop:
			return
		case <-time.After(interval):
		}
	}
}

// membersRun measures one group of so many members, and `more` that join later.
func membersRun(address, topic string, partitions, members, more int) (*membersResult, error) {
	info, err := prepareTopic(address, topic, partitions)
	if err != nil {
		return nil, err
	}
	first, err := connect(address)
	if err != nil {
		return nil, err
	}
	defer first.close()
	if err := awaitCoordinator(first, "bench-members"); err != nil {
		return nil, err
	}
	consumers := make([]*consumer, members+more)
	for i := range consumers {
		c, err := connect(address)
		if err != nil {
			return nil, err
		}
		defer c.close()
		consumers[i] = &consumer{client: c, group: "bench-members", topic: info, index: i, id: fmt.Sprintf("member-%06d", i)}
	}
	all := newOwnership(partitions)
	stop := make(chan struct{})
	var running sync.WaitGroup
	run := func(c *consumer) {
		running.Add(1)
		go func() {
			defer running.Done()
			c.live(all, stop)
		}()
	}
	res := &membersResult{Members: members, Partitions: partitions}
	begin := time.Now()
	for _, c := range consumers[:members] {
		run(c)
	}
	err = all.await(members, 3*time.Minute)
	if err == nil {
		res.SettleMS = millis(time.Since(begin))
		all.Lock()
		res.Heartbeats = all.beats
		all.Unlock()
	}
	var joins []float64
	for i := members; err == nil && i < len(consumers); i++ {
		// Let heartbeats spread, and the moments of joining fall anywhere between them.
		time.Sleep(6*time.Second + time.Duration(i-members)*time.Second*7/10)
		begin = time.Now()
		run(consumers[i])
		if err = all.await(i+1, 2*time.Minute); err == nil {
			joins = append(joins, millis(time.Since(begin)))
		}
	}
	close(stop)
	if err != nil {
		for _, c := range consumers {
			c.client.close()
		}
	}
	running.Wait()
	if err != nil {
		return nil, err
	}
	if len(joins) > 0 {
		slices.Sort(joins)
		res.JoinMS, res.WorstMS = joins[len(joins)/2], joins[len(joins)-1]
	}
	res.Verified = true
	return res, nil
}
