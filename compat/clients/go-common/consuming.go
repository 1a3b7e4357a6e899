package compat

import (
	"regexp"
	"slices"
	"time"
)

func init() {
	Add("consume_by_assignment", consumeByAssignment)
	Add("consume_by_group", func(c *Context) {
		topic := c.Create(3)
		c.Produce(topic, Sample(300, 100))
		got := numbers(c.take(c.member(Membership{Group: c.Group(), Topics: []string{topic}}), 300))
		slices.Sort(got)
		Same(got, span(0, 300), "records")
	})
	Add("subscribe_pattern", subscribePattern)
	Add("seek_into_batch", seekIntoBatch)
	Add("seek_by_time", seekByTime)
	Add("beginning_and_end_offsets", func(c *Context) {
		topic := c.Create(1)
		Same(Try(c.Admin().Offset(topic, 0, Latest)), int64(0), "end of an empty topic")
		c.Produce(topic, Sample(25, 100))
		Same(Try(c.Admin().Offset(topic, 0, Latest)), int64(25), "end")
		Same(Try(c.Admin().Offset(topic, 0, Earliest)), int64(0), "beginning")
	})
	Add("empty_poll", func(c *Context) {
		topic := c.Create(1)
		reader := c.reader(topic, 1)
		c.nothing(reader)
		c.Produce(topic, Sample(1, 100))
		c.take(reader, 1)
	})
	Add("reset_latest", resetLatest)
	Add("read_committed", func(c *Context) {
		topic := c.Create(1)
		c.Produce(topic, Sample(100, 100))
		Same(len(c.Read(topic, 1, 100, Reading{Committed: true})), 100, "records")
	})
	Add("pause_and_resume", pauseAndResume)
}

func consumeByAssignment(c *Context) {
	topic := c.Create(3)
	for partition := range int32(3) {
		c.ProduceTo(topic, partition, Sample(20, 100))
	}
	counts := map[int32]int{}
	for _, one := range c.take(c.Library.Reader(c, topic, []int32{0, 2}, Reading{}), 40) {
		counts[one.Partition]++
	}
	Same(counts, map[int32]int{0: 20, 2: 20}, "records by partition")
}

func subscribePattern(c *Context) {
	prefix := c.TopicName()
	for _, suffix := range []string{".one", ".two"} {
		c.Produce(prefix+suffix, Sample(10, 100))
	}
	member := c.member(Membership{
		Group: c.Group(), Pattern: "^" + regexp.QuoteMeta(prefix) + `\..*`, Refresh: 500 * time.Millisecond,
	})
	seen := map[string]bool{}
	poll := func() {
		for _, one := range Try(member.Poll()) {
			seen[one.Topic] = true
		}
	}
	c.Until("both topics", func() bool { poll(); return len(seen) == 2 })
	c.Produce(prefix+".three", Sample(10, 100))
	c.Until("the later topic", func() bool { poll(); return seen[prefix+".three"] })
}

func seekIntoBatch(c *Context) {
	topic := c.Create(1)
	c.Produce(topic, Sample(100, 100), Producing{Codec: "lz4", Linger: 200 * time.Millisecond})
	reader := c.reader(topic, 1, Reading{From: 57, Fixed: true})
	Same(offsets(c.take(reader, 43)), span(57, 100), "offsets")
	Must(reader.(Seeker).Seek(0, 33))
	Same(c.take(reader, 1)[0].Offset, int64(33), "offset after seek")
}

func seekByTime(c *Context) {
	topic, sent := c.Create(1), Sample(100, 20)
	start := time.UnixMilli(time.Now().UnixMilli()).Add(-10 * time.Minute)
	for n := range sent {
		sent[n].Time = start.Add(time.Duration(n) * time.Second)
	}
	c.ProduceTo(topic, 0, sent, Producing{Linger: 100 * time.Millisecond})
	found := Try(c.Admin().Offset(topic, 0, start.UnixMilli()+39_500))
	Same(found, int64(40), "offset for a time")
	Same(Try(c.Admin().Offset(topic, 0, start.UnixMilli()+1_000_000)), int64(-1), "a time after all records")
	got := c.Read(topic, 1, 1, Reading{From: found, Fixed: true})[0]
	Same(Number(got), 40, "record at the offset")
}

func resetLatest(c *Context) {
	topic := c.Create(1)
	c.Produce(topic, Sample(10, 100))
	member := c.member(Membership{Group: c.Group(), Topics: []string{topic}, Latest: true})
	writer := c.producer()
	c.Until("a new record", func() bool { // it may look up the end after we wrote: write again
		Try(writer.Send(Record{Topic: topic, Key: []byte("new"), Value: []byte("new")}))
		got := Try(member.Poll())
		for _, one := range got {
			Same(string(one.Key), "new", "key")
		}
		return len(got) > 0
	})
}

func pauseAndResume(c *Context) {
	topic := c.Create(2)
	write := func() {
		for partition := range int32(2) {
			c.ProduceTo(topic, partition, Sample(20, 100))
		}
	}
	write()
	reader := c.reader(topic, 2)
	c.take(reader, 40)
	reader.(Pauser).Pause(0)
	c.nothing(reader) // a fetch that is under way still has the partition in it
	write()
	for _, one := range c.take(reader, 20) {
		Same(one.Partition, int32(1), "partition while paused")
	}
	c.nothing(reader)
	reader.(Pauser).Resume(0)
	for _, one := range c.take(reader, 20) {
		Same(one.Partition, int32(0), "partition after resume")
	}
}
