package compat

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// ledger is what members tell of their records: those of a key are worked on in the order of the log, as on a partition.
// What was not committed may come again, from there on in order.
type ledger struct {
	mutex  sync.Mutex
	next   map[string]int // key -> the number that is due
	top    map[string]int // key -> the highest that was due
	done   int
	again  int
	wrong  string
	lives  int
	failed any
}

// take notes that a record is worked on. Its key's numbers go up by keys.
func (l *ledger) take(member string, record Record, keys int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	key, number := string(record.Key), value(record)/keys
	if number > l.next[key] && l.wrong == "" {
		l.wrong = fmt.Sprintf("%s got %s %d when %d was due (lane %d, offset %d)", member, key, number, l.next[key],
			record.Partition, record.Offset)
	}
	l.next[key] = number + 1
	if number < l.top[key] {
		l.again++
		return
	}
	l.top[key] = number + 1
	l.done++
}

func (l *ledger) state() (done, lives int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.failed != nil {
		panic(fmt.Sprintf("a member failed: %v", l.failed))
	}
	Check(l.wrong == "", "%s", l.wrong)
	return l.done, l.lives
}

func (l *ledger) lived() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lives++
}

// queueRebalance: members come and leave under load.
func queueRebalance(c *Context) { comeAndLeave(c, [3]Membership{}) }

// QueueProtocolCases are those of libraries that speak the new protocol (KIP-848), beside QueueCases.
func QueueProtocolCases() {
	Add("queue_consumer_protocol", func(c *Context) {
		// one of each protocol comes and goes
		comeAndLeave(c, [3]Membership{{NewProtocol: true}, {}, {NewProtocol: true}})
	})
}

// comeAndLeave: three members that are set so; the first stays.
func comeAndLeave(c *Context, how [3]Membership) {
	const keys, rounds = 40, 10
	q := newQueue(c, 8, "pulsar.subscription.type", "key_shared")
	book := &ledger{next: map[string]int{}, top: map[string]int{}}
	over := make(chan struct{})
	var members sync.WaitGroup
	for place := range 3 {
		members.Go(func() {
			defer func() {
				if problem := recover(); problem != nil {
					book.mutex.Lock()
					book.failed = fmt.Sprintf("%v%s", problem, where())
					book.mutex.Unlock()
				}
			}()
			for life := 1; c.Left() > 0; life++ {
				patience := time.Hour // the first stays
				if place > 0 {
					patience = time.Duration(place) * 700 * time.Millisecond
				}
				if q.live(book, fmt.Sprintf("member %d.%d", place, life), keys, patience, over, how[place]) {
					return
				}
			}
		})
	}
	written := 0
	feed := func() {
		q.write(written, written+keys*rounds, keys)
		written += keys * rounds
	}
	feed()
	c.Until("six members to have come and gone", func() bool {
		done, lives := book.state()
		if written-done < keys*rounds && lives < 6 {
			feed()
		}
		return lives >= 6
	})
	c.Until(fmt.Sprintf("all of %d records", written), func() bool {
		done, _ := book.state()
		return done == written
	})
	close(over)
	members.Wait()
	book.state()
	c.nothing(q.join())
	c.Detail = fmt.Sprintf("%d records, %d of them again", written, book.again)
}

// live is a member's life: it works for so long from its first record on, then leaves. True when all is over.
func (q *queue) live(
	book *ledger, name string, keys int, patience time.Duration, over chan struct{}, how Membership,
) bool {
	member := q.join(how)
	defer member.Close()
	defer book.lived()
	var end time.Time
	for q.c.Left() > 0 && (end.IsZero() || time.Now().Before(end)) {
		select {
		case <-over:
			return true
		default:
		}
		some := Try(member.Poll())
		for _, one := range some {
			book.take(name, one, keys)
		}
		if len(some) > 0 && end.IsZero() {
			end = time.Now().Add(patience)
		}
		_ = commit(member, some, nothingSaid) // an error: the generation is over, and they come again
	}
	return false
}

// queueMoreLanes: members that consume take up lanes that are added.
func queueMoreLanes(c *Context) {
	const keys = 20
	q := newQueue(c, 2, "pulsar.subscription.type", "key_shared")
	book := &ledger{next: map[string]int{}, top: map[string]int{}}
	members := []Naming{q.join(), q.join()}
	shares := func() (shares []int) {
		for n, member := range members {
			some := Try(member.Poll())
			for _, one := range some {
				book.take(fmt.Sprintf("member %d", n), one, keys)
			}
			_ = commit(member, some, nothingSaid) // an error: they come again
			shares = append(shares, len(member.Partitions()))
		}
		return shares
	}
	c.Until("a lane for each", func() bool { return slices.Equal(shares(), []int{1, 1}) })
	q.write(0, 100, keys)
	begun := time.Now()
	Must(c.Admin().AddPartitions(q.name, 6))
	c.Until("three lanes for each", func() bool {
		book.state()
		return slices.Equal(shares(), []int{3, 3})
	})
	c.Detail = fmt.Sprintf("all members had their lanes %.1f s later", time.Since(begun).Seconds())
	q.write(100, 200, keys)
	defer func() {
		if problem := recover(); problem != nil {
			panic(fmt.Sprintf("%v; %d of 200, %d of them again", problem, book.done, book.again))
		}
	}()
	c.Until("all records", func() bool {
		shares()
		done, _ := book.state()
		return done == 200
	})
	for _, member := range members {
		c.nothing(member)
	}
}
