package main

import (
	"fmt"

	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"magnetar/compat"
)

// shareAcknowledging: what acknowledgements do.
func shareAcknowledging() {
	compat.Add("share_implicit", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c)
		first := join(c, group, []string{topic})
		compat.Same(offsets(first.hold(10)), span(0, 10), "first poll")
		write(c, topic, "", compat.Sample(10, 100)...)
		compat.Same(offsets(first.some()), span(10, 20), "second poll") // which accepted the first
		compat.Same(len(first.poll()), 0, "records of a third poll")    // which accepted the second
		compat.Same(first.flush(), []error(nil), "errors of acknowledgements")
		first.leave()
		join(c, group, []string{topic}).nothingElse(topic)
	})
	compat.Add("share_explicit", func(c *compat.Context) {
		topic, group := c.Create(1), shareGroup(c)
		sent := append(compat.Sample(8, 100), compat.Record{Partition: 0, Value: []byte("no key")},
			compat.Record{Partition: 0, Key: []byte("no value")})
		headers := []compat.Header{{Key: "a", Value: []byte{0}}, {Key: "a", Value: nil}}
		for n := range sent {
			sent[n].Headers = headers
		}
		write(c, topic, "", sent...)
		first := join(c, group, []string{topic})
		found := first.take(10, kgo.AckAccept)
		compat.SameRecords(from(found), sent)
		compat.Same(counts(found), times(10, 1), "delivery counts")
		for _, one := range from(found) {
			compat.Same(one.Headers, headers, "headers")
		}
		left := time.Until(found[0].AcquisitionDeadline())
		compat.Check(left > 0 && left <= 30*time.Second, "the lock runs out in %s", left)
		first.nothingElse(topic)
		first.leave()
		join(c, group, []string{topic}).nothingElse(topic)
	})
	compat.Add("share_commit_callback", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c)
		first := join(c, group, []string{topic})
		for _, one := range first.hold(10) {
			one.Ack(kgo.AckAccept)
		}
		c.Until("the callback", func() bool {
			first.mutex.Lock()
			defer first.mutex.Unlock()
			return first.told == 1
		})
		compat.Same(first.flush(), []error(nil), "what the callback was told")
		first.nothingElse(topic)
	})
	compat.Add("share_release", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c)
		first := join(c, group, []string{topic})
		for _, one := range first.hold(10) {
			if one.Offset%2 == 1 {
				one.Ack(kgo.AckRelease)
			} else {
				one.Ack(kgo.AckAccept)
			}
		}
		first.mark(kgo.AckAccept)
		for _, delivery := range []int32{2, 3} {
			again := first.hold(5)
			compat.Same(offsets(again), []int64{1, 3, 5, 7, 9}, "released records")
			compat.Same(counts(again), times(5, delivery), "delivery counts")
			first.mark(kgo.AckRelease, again...)
		}
		first.leave()
		second := join(c, group, []string{topic})
		compat.Same(counts(second.take(5, kgo.AckAccept)), times(5, 4), "delivery counts of another member")
		second.nothingElse(topic)
	})
	compat.Add("share_reject", func(c *compat.Context) {
		topic, group := written(c, 10), shareGroup(c)
		first := join(c, group, []string{topic})
		first.mark(kgo.AckReject, first.hold(10)...)
		first.nothingElse(topic)
	})
	compat.Add("share_renew", func(c *compat.Context) {
		topic := written(c, 10)
		group := shareGroup(c, "share.record.lock.duration.ms", fmt.Sprint(lock.Milliseconds()))
		first, second := join(c, group, []string{topic}), join(c, group, []string{topic})
		var held []*kgo.Record
		var holder, other *sharer
		c.Until("records", func() bool {
			for _, one := range []*sharer{first, second} {
				if held = one.poll(); len(held) > 0 {
					holder, other = one, first
					if one == first {
						other = second
					}
					return true
				}
			}
			return false
		})
		compat.Same(len(held), 10, "records in hand")
		for end := time.Now().Add(2 * lock); time.Now().Before(end); {
			holder.mark(kgo.AckRenew, held...)
			compat.Same(len(other.poll()), 0, "records that another member renews")
		}
		holder.mark(kgo.AckAccept, held[:4]...)
		holder.mark(kgo.AckRelease, held[4:]...)
		holder.leave()
		again := other.take(6, kgo.AckAccept)
		compat.Same(offsets(again), span(4, 10), "records released after it")
		other.nothingElse(topic)
	})
	compat.Add("share_individual_acks", func(c *compat.Context) {
		for codec := range codecs {
			topic, group := c.Create(1), shareGroup(c)
			left := compat.Sample(100, 100)
			write(c, topic, codec, left...)
			first := join(c, group, []string{topic})
			for _, keep := range []int{3, 7} {
				found, next := first.hold(len(left)), []compat.Record{}
				compat.SameRecords(from(found), left)
				for n, one := range found {
					if n%keep == 0 {
						one.Ack(kgo.AckAccept)
					} else {
						one.Ack(kgo.AckRelease)
						next = append(next, left[n])
					}
				}
				first.mark(kgo.AckAccept)
				left = next
			}
			compat.SameRecords(from(first.take(len(left), kgo.AckAccept)), left)
			first.nothingElse(topic)
			first.leave()
		}
	})
	compat.Add("share_record_limit", func(c *compat.Context) {
		topic, group := written(c, 100), shareGroup(c)
		strict := []kgo.Opt{kgo.ShareMaxRecords(7), kgo.ShareMaxRecordsStrict()}
		first := join(c, group, []string{topic}, strict...)
		held := first.hold(7)
		compat.Same(offsets(held), span(0, 7), "records of the first member")
		second := join(c, group, []string{topic}, strict...)
		others := second.hold(7) // perhaps not 7 to 13: the first member's client may have asked a second time
		compat.Check(others[0].Offset > 6, "the second member got offset %d too", others[0].Offset)
		second.mark(kgo.AckAccept, others...)
		first.mark(kgo.AckAccept, held...)
		first.leave()
		seen := map[int64]bool{}
		c.Until("the rest, at most seven at a time", func() bool {
			some := second.poll()
			compat.Check(len(some) <= 7, "%d records at a time", len(some))
			second.mark(kgo.AckAccept, some...)
			for _, one := range some {
				seen[one.Offset] = true
			}
			return len(seen) == 86
		})
		second.nothingElse(topic)
	})
	compat.Add("share_lock_timeout", func(c *compat.Context) {
		topic := written(c, 10)
		group := shareGroup(c, "share.record.lock.duration.ms", fmt.Sprint(lock.Milliseconds()))
		first := join(c, group, []string{topic})
		began := time.Now()
		held := first.hold(10)
		second := join(c, group, []string{topic})
		// all ten, or its share of them: the first is a member too
		again := second.some()
		compat.Check(time.Since(began) > lock-2*time.Millisecond, "locked records were given to another member")
		for _, one := range held {
			one.Ack(kgo.AckAccept)
		}
		compat.Same(first.flush(), []error{kerr.InvalidRecordState}, "errors of a late acknowledgement")
		second.mark(kgo.AckAccept, again...)
		if len(again) < 10 {
			again = append(again, second.take(10-len(again), kgo.AckAccept)...)
		}
		compat.Same(offsets(again), span(0, 10), "offsets")
		compat.Same(counts(again), times(10, 2), "delivery counts")
		second.nothingElse(topic)
	})
	compat.Add("share_delivery_limit", func(c *compat.Context) {
		topic, group := written(c, 5), shareGroup(c, "share.delivery.count.limit", "3")
		first := join(c, group, []string{topic})
		seen := map[string]bool{}
		// Kafka gives what fails again and again record by record.
		for _, one := range first.take(15, kgo.AckRelease) {
			seen[fmt.Sprint(one.Offset, " ", one.DeliveryCount())] = true
		}
		compat.Check(len(seen) == 15 && seen["0 3"] && seen["4 3"], "deliveries %v", seen)
		first.nothingElse(topic)
	})
	compat.Add("share_error_bad_config", func(c *compat.Context) {
		group := c.Group()
		for name, value := range map[string]string{
			"share.auto.offset.reset": "sometimes", "share.record.lock.duration.ms": "soon",
			"share.isolation.level": "read_everything", "share.delivery.count.limit": "-1", "share.no.such.config": "1",
		} {
			code, words := alter(c, group, name, &value)
			compat.Check(code == compat.InvalidConfig && strings.Contains(words, name), "%s=%s: %d %s", name, value, code, words)
		}
	})
}
