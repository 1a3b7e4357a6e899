package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"magnetar/compat"
)

// crowd is members that accept what comes, each in a goroutine of its own. They keep their first records in hand
// until pause is closed.
type crowd struct {
	c     *compat.Context
	pause chan struct{}
	ended atomic.Bool
	mutex sync.Mutex
	seen  []map[int]int // member -> number -> deliveries
	wrong string
}

func gather(c *compat.Context, size int, group, topic string) *crowd {
	all := &crowd{c: c, pause: make(chan struct{}), seen: make([]map[int]int, size)}
	var working sync.WaitGroup
	for n := range size {
		all.seen[n] = map[int]int{}
		member := join(c, group, []string{topic}, kgo.ShareMaxRecords(10))
		working.Go(func() { all.work(member, all.seen[n]) })
	}
	c.Closing(func() {
		all.ended.Store(true)
		all.release()
		working.Wait()
	})
	return all
}

func (a *crowd) release() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	select {
	case <-a.pause:
	default:
		close(a.pause)
	}
}

func (a *crowd) work(member *sharer, seen map[int]int) {
	defer member.leave()
	defer func() {
		if problem := recover(); problem != nil {
			a.mutex.Lock()
			defer a.mutex.Unlock()
			a.wrong = fmt.Sprint(problem)
		}
	}()
	for !a.ended.Load() {
		found := member.poll()
		if len(found) == 0 {
			continue
		}
		a.mutex.Lock()
		for _, one := range from(found) {
			seen[compat.Number(one)]++
		}
		a.mutex.Unlock()
		<-a.pause
		member.mark(kgo.AckAccept, found...)
	}
}

// everybody holds something.
func (a *crowd) everybody() {
	a.c.Until("all members to hold records of the one partition", func() bool {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		for _, one := range a.seen {
			if len(one) == 0 {
				return false
			}
		}
		return true
	})
}

// finish waits until every record was seen, and once.
func (a *crowd) finish(count int) {
	deliveries := 0
	a.c.Until(fmt.Sprint(count, " records"), func() bool {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		compat.Check(a.wrong == "", "a member ended: %s", a.wrong)
		deliveries = 0
		for _, one := range a.seen {
			for _, times := range one {
				deliveries += times
			}
		}
		return deliveries >= count
	})
	a.mutex.Lock()
	defer a.mutex.Unlock()
	different := map[int]bool{}
	for _, one := range a.seen {
		for number := range one {
			different[number] = true
		}
	}
	compat.Same(len(different), count, "different records")
	compat.Same(deliveries, count, "deliveries")
}

// spread writes the records "key-from" to "key-to" in batches of a few.
func spread(c *compat.Context, topic string, start, end int) {
	producer := library{}.Producer(c, compat.Producing{})
	records := compat.Sample(end, 20)[start:]
	for len(records) > 0 {
		few := min(10, len(records))
		for n := range few {
			records[n].Topic, records[n].Partition = topic, 0
		}
		compat.Try(producer.Send(records[:few]...))
		records = records[few:]
	}
}

// shareMembers: members that share, come, leave, crash, and live through a restart.
func shareMembers() {
	compat.Add("share_two_members", func(c *compat.Context) {
		topic, group := c.Create(1), shareGroup(c)
		spread(c, topic, 0, 200)
		both := gather(c, 2, group, topic)
		both.everybody()
		both.release()
		both.finish(200)
	})
	compat.Add("share_fifty_members", func(c *compat.Context) {
		topic, group := c.Create(1), shareGroup(c)
		spread(c, topic, 0, 1500)
		all := gather(c, 50, group, topic)
		all.everybody()
		all.release()
		all.finish(1500)
	})
	compat.Add("share_two_groups", func(c *compat.Context) {
		topic := c.Create(3)
		for partition := range int32(3) {
			c.ProduceTo(topic, partition, compat.Sample(20, 100))
		}
		for range 2 {
			found := map[int32]int{}
			for _, one := range join(c, shareGroup(c), []string{topic}).take(60, kgo.AckAccept) {
				found[one.Partition]++
			}
			compat.Same(found, map[int32]int{0: 20, 1: 20, 2: 20}, "records by partition")
		}
	})
	compat.Add("share_crash_while_holding", func(c *compat.Context) {
		topic, group, cable := written(c, 10), shareGroup(c), &compat.Cable{}
		first := join(c, group, []string{topic}, kgo.Dialer(cable.DialContext))
		first.hold(10)
		second := join(c, group, []string{topic})
		for range 5 {
			compat.Same(len(second.poll()), 0, "records that another member holds")
		}
		cable.Cut()
		again := second.take(10, kgo.AckAccept) // long before its lock of 30 s or its session of 45 s runs out
		compat.Same(offsets(again), span(0, 10), "offsets")
		compat.Same(counts(again), times(10, 2), "delivery counts")
		second.nothingElse(topic)
	})
	compat.Add("share_close_while_holding", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c)
		first := join(c, group, []string{topic})
		held := first.hold(10)
		second := join(c, group, []string{topic})
		compat.Same(len(second.poll()), 0, "records that another member holds")
		for _, one := range held[:4] {
			one.Ack(kgo.AckAccept)
		}
		first.leave() // sends what was acknowledged, and gives back the rest
		again := second.take(6, kgo.AckAccept)
		compat.Same(offsets(again), span(4, 10), "records that were not acknowledged")
		for _, count := range counts(again) { // Kafka counts it as a delivery, Pulsar does not
			compat.Check(count == 1 || count == 2, "delivery count %d", count)
		}
		second.nothingElse(topic)
	})
	compat.Add("share_unsubscribe", func(c *compat.Context) {
		one, other, group := written(c, 3), c.Create(1), shareGroup(c)
		member := join(c, group, []string{one})
		member.take(3, kgo.AckAccept)
		member.client.AddConsumeTopics(other)
		member.client.PurgeTopicsFromConsuming(one)
		write(c, other, "", compat.Sample(4, 100)...)
		for _, record := range member.take(4, kgo.AckAccept) {
			compat.Same(record.Topic, other, "topic after the change")
		}
		write(c, one, "", compat.Sample(2, 100)...)
		member.nothingElse(other)
		member.client.AddConsumeTopics(one)
		for _, record := range member.take(2, kgo.AckAccept) {
			compat.Same(record.Topic, one, "topic after it came back")
		}
	})
	compat.Add("share_group_id_taken", func(c *compat.Context) {
		topic, group := written(c, 2), shareGroup(c)
		join(c, group, []string{topic}).take(2, kgo.AckAccept)
		classic := library{}.Member(c, compat.Membership{Group: group, Topics: []string{topic}, Session: 10 * time.Second})
		var err error
		c.Until("the classic consumer to be refused", func() bool {
			_, err = classic.Poll()
			return err != nil
		})
		c.Fails(err, compat.InconsistentProtocol)
		other := c.Group()
		consumer := library{}.Member(c, compat.Membership{Group: other, Topics: []string{topic}, Session: 10 * time.Second})
		c.Until("the classic group", func() bool { return len(compat.Try(consumer.Poll())) > 0 })
		refused := join(c, other, []string{topic})
		for range 5 { // franz-go tries again and again, silently, what the server refuses with GROUP_ID_NOT_FOUND
			compat.Same(len(refused.poll()), 0, "records of a share consumer in a classic group")
		}
	})
	compat.Add("restart_share_acknowledgements", func(c *compat.Context) {
		topic, group := written(c, 30), shareGroup(c)
		first := join(c, group, []string{topic})
		kinds := []kgo.AckStatus{kgo.AckRelease, kgo.AckAccept, kgo.AckReject}
		for _, one := range first.hold(30) {
			one.Ack(kinds[one.Offset%3])
		}
		first.mark(kgo.AckAccept)
		first.leave()
		c.Restart()
		second := join(c, group, []string{topic})
		again, expected := second.take(10, kgo.AckAccept), []int64{}
		for n := range int64(10) {
			expected = append(expected, 3*n)
		}
		compat.Same(offsets(again), expected, "released records")
		compat.Same(counts(again), times(10, 2), "delivery counts")
		second.nothingElse(topic)
	})
	compat.Add("restart_share_in_hand", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c)
		first := join(c, group, []string{topic})
		held := first.hold(10)
		c.Restart()
		for _, one := range held {
			one.Ack(kgo.AckAccept)
		}
		if len(first.flush()) > 0 {
			compat.Same(offsets(first.take(10, kgo.AckAccept)), span(0, 10), "records after the restart")
		}
		first.nothingElse(topic)
	})
	compat.Add("restart_share_live", func(c *compat.Context) {
		topic, group := c.Create(1), shareGroup(c)
		both := gather(c, 2, group, topic)
		both.release()
		spread(c, topic, 0, 100)
		both.finish(100)
		c.Restart()
		spread(c, topic, 100, 200)
		both.finish(200)
	})
}
