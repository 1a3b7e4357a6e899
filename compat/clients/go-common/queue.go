package compat

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// QueueCases are those of queue topics, instead of all others.
func QueueCases() {
	DropAll()
	Add("queue_auto_commit", queueAutoCommit)
	Add("queue_manual_commit", queueManualCommit)
	Add("queue_nack", queueNack)
	Add("queue_malformed", queueMalformed)
	Add("queue_other_group", queueOtherGroup)
	Add("queue_example", queueExample)
	Add("queue_dead_letter", queueDeadLetter)
	Add("queue_poison", queuePoison)
	Add("queue_crash", queueCrash)
	Add("queue_rebalance", queueRebalance)
	Add("queue_more_lanes", queueMoreLanes)
	Add("queue_delayed_and_retry", queueDelayedAndRetry)
	Add("queue_foreign_metadata", queueForeignMetadata)
	Add("restart_queue", restartQueue)
}

// early is by how many milliseconds two clocks of one machine may differ.
const early = 2 * time.Millisecond

// queue is a topic with a subscription that lanes serve.
type queue struct {
	c     *Context
	topic string
	group string
	name  string
}

// newQueue makes a topic of two partitions and its queue topic; configs of the subscription in pairs.
func newQueue(c *Context, lanes int32, configs ...string) *queue {
	q := &queue{c: c, topic: c.Create(2), group: c.Group()}
	q.name = q.topic + "-" + q.group + "-QUEUE"
	spec := TopicSpec{Name: q.name, Partitions: lanes, Replicas: 1, Configs: map[string]string{}}
	for n := 0; n < len(configs); n += 2 {
		spec.Configs[configs[n]] = configs[n+1]
	}
	Must(c.Admin().Create(spec))
	Same(c.Describe(q.name).Partitions, int(lanes), "lanes")
	return q
}

// write records with the values from, … to - 1, dealt to so many keys.
func (q *queue) write(from, to, keys int) {
	records := []Record{}
	for n := from; n < to; n++ {
		key := n % keys
		records = append(records, Record{
			Topic: q.topic, Partition: int32(key % 2), Key: []byte(fmt.Sprintf("key-%d", key)), Value: []byte(strconv.Itoa(n)),
		})
	}
	Try(q.c.producer().Send(records...))
}

// join gives a member that can name single deliveries.
func (q *queue) join(how ...Membership) Naming {
	one := append(how, Membership{})[0]
	one.Group, one.Topics, one.Names = q.group, []string{q.name}, true
	return q.c.member(one).(Naming)
}

// value of a record that write made.
func value(record Record) int { return Try(strconv.Atoi(string(record.Value))) }

// commit behind the last record of each partition; say gives what the metadata says of a record, "" for nothing.
// The first error comes back.
func commit(member Naming, records []Record, say func(Record) string) error {
	last, names := map[int32]Record{}, map[int32]string{}
	for _, one := range records {
		last[one.Partition] = one
		if said := say(one); said != "" {
			names[one.Partition] += ";" + said + "=" + strconv.FormatInt(one.Offset, 10)
		}
	}
	for partition, one := range last {
		metadata := ""
		if names[partition] != "" {
			metadata = "ack1" + names[partition]
		}
		if err := member.CommitNaming(one.Topic, partition, one.Offset+1, metadata); err != nil {
			return err
		}
	}
	return nil
}

func nothingSaid(Record) string { return "" }

// work takes records and commits behind each poll until enough says so of all that came.
func (q *queue) work(member Naming, what string, say func(Record) string, enough func([]Record) bool) []Record {
	all := []Record{}
	q.c.Until(what, func() bool {
		some := Try(member.Poll())
		Must(commit(member, some, say))
		all = append(all, some...)
		return enough(all)
	})
	return all
}

func (q *queue) finish(member Naming, count int) []Record {
	return q.work(member, fmt.Sprintf("%d records", count), nothingSaid, func(all []Record) bool { return len(all) >= count })
}

func values(records []Record) []int64 {
	all := []int64{}
	for _, one := range records {
		all = append(all, int64(value(one)))
	}
	slices.Sort(all)
	return all
}

// committed offsets of all lanes, added up: so many deliveries are settled when each lane began at 0.
func (q *queue) committed() int64 {
	sum := int64(0)
	for _, one := range Try(q.c.Admin().Commits(q.group, q.name)) {
		sum += max(one.Offset, 0)
	}
	return sum
}

// letters are the dead letters, so many and no more.
func (q *queue) letters(count int) []Record {
	topic := q.topic + "-" + q.group + "-DLQ"
	q.c.Describe(topic)
	reader := q.c.reader(topic, 2)
	found := q.c.take(reader, count)
	q.c.nothing(reader)
	return found
}

func queueAutoCommit(c *Context) {
	q := newQueue(c, 4)
	one, other := c.member(q.automatic()), c.member(q.automatic())
	both, seen := []Member{one, other}, settle(c, []Member{one, other}, 2, 2)
	Same(len(seen), 0, "records before there are any")
	q.write(0, 1000, 50)
	c.Until("each record", func() bool {
		for _, member := range both {
			seen = append(seen, Try(member.Poll())...)
		}
		return len(seen) >= 1000
	})
	Same(values(seen), span(0, 1000), "records, each once")
	c.Until("the commits", func() bool {
		for _, member := range both {
			Same(len(Try(member.Poll())), 0, "records that came again")
		}
		return q.committed() == 1000
	})
	one.Close()
	other.Close()
	q.write(1000, 1010, 50)
	last := c.member(q.automatic())
	Same(values(c.take(last, 10)), span(1000, 1010), "what comes to the next member")
	c.nothing(last)
}

// automatic is a member with the client's own commits.
func (q *queue) automatic() Membership {
	return Membership{Group: q.group, Topics: []string{q.name}, AutoCommit: true}
}

func queueManualCommit(c *Context) {
	q := newQueue(c, 3)
	q.write(0, 300, 50)
	first := q.join()
	done := q.finish(first, 300)
	q.write(300, 500, 50)
	held := []Record{}
	c.Until("records that are not committed", func() bool {
		held = Try(first.Poll())
		return len(held) > 0
	})
	first.Close()
	second := q.join()
	rest := q.finish(second, 500-len(done))
	Same(values(append(done, rest...)), span(0, 500), "records, each once but what the first had in hand")
	places := func(records []Record) map[[2]int64]bool {
		found := map[[2]int64]bool{}
		for _, one := range records {
			found[[2]int64{int64(one.Partition), one.Offset}] = true
		}
		return found
	}
	again := places(rest)
	for where := range places(held) {
		Check(again[where], "what a member leaves behind keeps its offset: %v came under another", where)
	}
	c.nothing(second)
}

func queueNack(c *Context) {
	q := newQueue(c, 1)
	q.write(0, 20, 5)
	member := q.join()
	var bad Record
	var begun time.Time
	first := q.work(member, "the records", func(one Record) string {
		if value(one) != 7 {
			return ""
		}
		bad, begun = one, time.Now()
		return "n:900"
	}, func(all []Record) bool { return len(all) == 20 })
	Same(values(first), span(0, 20), "records: the others go on")
	again := q.finish(member, 1)
	waited := time.Since(begun)
	Check(waited >= 900*time.Millisecond-early, "the nacked record came after %s", waited)
	Same(value(again[0]), 7, "the record that came again")
	Check(again[0].Offset > bad.Offset, "it came as %d, it was %d", again[0].Offset, bad.Offset)
	c.nothing(member)
	Same(q.committed(), int64(21), "deliveries that are settled")
}

// QueueWorker is a library with the program of docs/QUEUE-CLIENTS.md.
type QueueWorker interface {
	// WorkQueue runs it until stop is called. What handle says of a value: "" done, "again", "hopeless".
	WorkQueue(c *Context, group, topic string, handle func(value string) string) (stop func())
}

// queueExample runs that program: one record is hopeless, and of those after 200, when windows have grown, more fail once than a
// commit could name singly, or by 80 spans.
func queueExample(c *Context) {
	worker, ok := c.Library.(QueueWorker)
	Check(ok, "the library has no example; it belongs under [lacks]")
	q := newQueue(c, 1)
	q.write(0, 1400, 5)
	fails := func(number int) bool { return number >= 200 && number%4 != 0 }
	var mutex sync.Mutex
	counts := map[string]int{}
	stop := worker.WorkQueue(c, q.group, q.name, func(value string) string {
		mutex.Lock()
		defer mutex.Unlock()
		counts[value]++
		switch {
		case value == "7":
			return "hopeless"
		case fails(Try(strconv.Atoi(value))) && counts[value] == 1:
			return "again"
		}
		return ""
	})
	c.Until("the page's program to be done", func() bool { return q.committed() == 2300 })
	stop()
	Same(values(q.letters(1)), []int64{7}, "dead letters")
	mutex.Lock()
	defer mutex.Unlock()
	for number := range 1400 {
		Same(counts[strconv.Itoa(number)], map[bool]int{true: 2, false: 1}[fails(number)], fmt.Sprintf("deliveries of %d", number))
	}
}

func queueMalformed(c *Context) {
	q := newQueue(c, 1)
	q.write(0, 10, 5)
	first := q.join()
	found := c.take(first, 10)
	err := first.CommitNaming(q.name, 0, found[9].Offset+1, "ack1;n:soon=3")
	if refuser, late := first.(Refuser); late {
		c.Until("the refusal", func() bool { err = refuser.Refused(); return err != nil })
	}
	c.Fails(err, InvalidRequest)
	first.Close()
	second := q.join()
	Same(values(q.finish(second, 10)), span(0, 10), "what comes again: nothing was acknowledged")
	c.nothing(second)
}

// Refuser is a Naming that is told of a refused commit only later.
type Refuser interface{ Refused() error }

func queueOtherGroup(c *Context) {
	q := newQueue(c, 1)
	q.write(0, 10, 5)
	audit := c.member(Membership{Group: c.Group(), Topics: []string{q.name}})
	Must(audit.Commit(c.take(audit, 10)[9]))
	audit.Close()
	member := q.join()
	Same(values(q.finish(member, 10)), span(0, 10), "records of the subscription's own group")
	c.nothing(member)
}

func queueDeadLetter(c *Context) {
	q := newQueue(c, 2, "pulsar.max.redeliver.count", "2", "pulsar.nack.delay.ms", "0")
	q.write(0, 40, 8)
	member := q.join()
	counts := map[int]int{}
	q.work(member, "three deliveries of one", func(one Record) string {
		counts[value(one)]++
		switch value(one) {
		case 7:
			return "n"
		case 11:
			return "d"
		}
		return ""
	}, func(all []Record) bool { return len(all) >= 42 })
	c.nothing(member)
	for number := range 40 {
		Same(counts[number], map[bool]int{true: 3, false: 1}[number == 7], fmt.Sprintf("deliveries of %d", number))
	}
	Same(values(q.letters(2)), []int64{7, 11}, "dead letters")
}

// queuePoison: members die of one record, with others in their hands that are not to blame.
func queuePoison(c *Context) {
	q := newQueue(c, 1, "pulsar.max.redeliver.count", "2")
	q.write(0, 60, 10)
	done, deaths := map[int]bool{}, 0
	for len(done) < 59 {
		cable := &Cable{}
		member := q.join(Membership{Session: 2 * time.Second, Cable: cable})
		dead := false
		for !dead && len(done) < 59 {
			some := []Record{}
			c.Until(fmt.Sprintf("the rest (%d done, %d deaths)", len(done), deaths), func() bool {
				some = Try(member.Poll())
				return len(some) > 0
			})
			for _, one := range some {
				if value(one) == 31 {
					dead = true
					break
				}
				done[value(one)] = true
				Must(commit(member, []Record{one}, nothingSaid))
			}
		}
		if dead {
			deaths++
			cable.Cut()
		}
	}
	for deaths < 3 { // it came last each time
		cable := &Cable{}
		member := q.join(Membership{Session: 2 * time.Second, Cable: cable})
		found := []Record{}
		c.Until(fmt.Sprintf("delivery %d of the poison", deaths+1), func() bool {
			found = Try(member.Poll())
			return len(found) > 0
		})
		Same(values(found), []int64{31}, "what is left")
		deaths++
		cable.Cut()
	}
	after := q.join()
	letter := q.letters(1)
	Same(value(letter[0]), 31, "the dead letter")
	Same(deaths, 3, "deliveries of the poison")
	c.nothing(after)
}

func queueCrash(c *Context) {
	q := newQueue(c, 2, "pulsar.max.redeliver.count", "1", "pulsar.nack.delay.ms", "0")
	cable := &Cable{}
	first := q.join(Membership{Session: 2 * time.Second, Cable: cable})
	settle(c, []Member{first}, 2)
	q.write(0, 20, 5)
	had := map[string]bool{}
	place := func(one Record) string { return fmt.Sprintf("%d:%d", one.Partition, one.Offset) }
	c.Until("records in hand", func() bool {
		for _, one := range Try(first.Poll()) {
			had[place(one)] = true
		}
		return len(had) >= 10
	})
	cable.Cut()
	second := q.join()
	seen := map[int]int{}
	found := q.work(second, "all records", func(one Record) string {
		seen[value(one)]++
		if value(one) == 3 {
			return "n" // its second and last: the crash was the first
		}
		return ""
	}, func(all []Record) bool { return len(all) >= 20 })
	c.nothing(second)
	Same(values(found), span(0, 20), "records")
	again := 0
	for _, one := range found {
		if had[place(one)] {
			again++
		}
	}
	Same(again, 0, "deliveries with an offset that was another's")
	Same(value(q.letters(1)[0]), 3, "the dead letter")
}

func queueDelayedAndRetry(c *Context) {
	q := newQueue(c, 2, "pulsar.subscription.type", "key_shared")
	retries := q.topic + "-" + q.group + "-RETRY"
	Must(c.Admin().Create(TopicSpec{Name: retries, Partitions: 2, Replicas: 1}))
	c.Describe(retries)
	member := q.join()
	settle(c, []Member{member}, 2)
	send := func(topic string, number int, header, text string) {
		record := Record{Topic: topic, Partition: 0, Key: []byte("key-1"), Value: []byte(strconv.Itoa(number))}
		if header != "" {
			record.Headers = []Header{{Key: header, Value: []byte(text)}}
		}
		Try(c.producer().Send(record))
	}
	begun := time.Now()
	wait := map[int]time.Duration{0: 0, 1: 1500 * time.Millisecond, 2: 900 * time.Millisecond, 3: 1200 * time.Millisecond}
	send(q.topic, 1, "pulsar-deliver-at", strconv.FormatInt(begun.Add(wait[1]).UnixMilli(), 10))
	send(q.topic, 2, "pulsar-deliver-after", "900")
	send(retries, 3, "DELAY_TIME", "1200")
	send(q.topic, 0, "", "")
	found := q.work(member, "four records", func(one Record) string {
		waited := time.Since(begun)
		Check(waited >= wait[value(one)]-early, "record %d came after %s", value(one), waited)
		return ""
	}, func(all []Record) bool { return len(all) >= 4 })
	Same(values(found), span(0, 4), "records")
	c.nothing(member)
}

func queueForeignMetadata(c *Context) {
	q := newQueue(c, 1)
	q.write(0, 10, 5)
	text := `{"framework": "käse", "n": [1, 2]} ` + "x;ack1;n=3"
	member := q.join()
	found := q.work(member, "the records", nothingSaid, func(all []Record) bool { return len(all) >= 10 })
	Must(member.CommitNaming(q.name, 0, found[9].Offset+1, text))
	c.Until("the metadata", func() bool {
		back := Try(c.Admin().Commits(q.group, q.name))[0]
		return back.Metadata == text && back.Offset == 10
	})
	q.write(10, 20, 5)
	q.finish(member, 10)
	Check(Try(c.Admin().Commits(q.group, q.name))[0].Metadata != text, "metadata of another offset")
	// and what the client writes by itself
	q.write(20, 30, 5)
	own := c.take(member, 1)
	for own[len(own)-1].Offset < 29 {
		own = append(own, c.take(member, 1)...)
	}
	Must(member.Commit(own[len(own)-1]))
	c.Until("the client's own commit", func() bool { return q.committed() == 30 })
	c.Detail = fmt.Sprintf("by itself it writes %q", cut([]byte(Try(c.Admin().Commits(q.group, q.name))[0].Metadata)))
	member.Close()
	c.nothing(q.join())
}

func restartQueue(c *Context) {
	q := newQueue(c, 3, "pulsar.subscription.type", "key_shared")
	q.write(0, 150, 20)
	member := q.join()
	done := q.finish(member, 150)
	c.Until("the commits", func() bool { return q.committed() == 150 })
	q.write(150, 300, 20)
	held := []Record{}
	c.Until("records in hand", func() bool {
		held = Try(member.Poll())
		return len(held) > 0
	})
	c.Restart()
	q.write(300, 400, 20)
	seen, at := map[int]int{}, map[int]string{}
	note := func(records []Record) {
		for _, one := range records {
			seen[value(one)]++
			at[value(one)] += fmt.Sprintf(" %d:%d", one.Partition, one.Offset)
		}
	}
	note(slices.Concat(done, held)) // it goes on behind what it has in hand, and commits that with the next
	defer func() {
		if problem := recover(); problem != nil {
			panic(fmt.Sprintf("%v; %d of 400 came, not %s", problem, len(seen), short(lacking(seen, 400))))
		}
	}()
	c.Until("the others", func() bool {
		some, err := member.Poll()
		if err == nil {
			_ = commit(member, some, nothingSaid) // an error: it comes again
		}
		note(some)
		return len(seen) == 400
	})
	for _, one := range done {
		number := value(one)
		Same(seen[number], 1, fmt.Sprintf("deliveries of %d, which was committed before, at%s", number, at[number]))
	}
}

// lacking are the numbers below count that did not come.
func lacking(seen map[int]int, count int) []int {
	all := []int{}
	for number := range count {
		if seen[number] == 0 {
			all = append(all, number)
		}
	}
	return all
}
