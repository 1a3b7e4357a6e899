package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sessionTimeout is the shortest that a broker takes by default. Heartbeats come as often as franz-go has it: 3 s. It asks
// for new lanes only when the fetch that it waits for is answered, which would be 5 s; Java and librdkafka wait half a
// second.
const (
	sessionTimeout = 6 * time.Second
	fetchWait      = 500 * time.Millisecond
)

type lostFigures struct {
	// from the end of the session until the first, and the last, of what the killed member had was with another
	First percentiles `json:"first_ms"`
	Last  percentiles `json:"last_ms"`
	Held  int         `json:"held"`  // what it had, at least
	Lanes int         `json:"lanes"` // that were its own, at least
}

// lost kills a member of a queue topic's group, a process of its own that has never committed, and times when the others
// have what it had. They commit after each poll, and have nothing else to do by then.
func lost(o *options) (any, error) {
	figures := &lostFigures{}
	var firsts, lasts []time.Duration
	for try := range o.tries {
		one := *o
		one.topic, one.group = fmt.Sprintf("%s-%d", o.topic, try), fmt.Sprintf("%s-%d", o.group, try)
		first, last, held, lanes, err := loseOne(&one)
		if err != nil {
			return nil, err
		}
		firsts, lasts = append(firsts, first), append(lasts, last)
		if try == 0 || held < figures.Held {
			figures.Held = held
		}
		if try == 0 || lanes < figures.Lanes {
			figures.Lanes = lanes
		}
	}
	figures.First, figures.Last = percentilesOf(firsts), percentilesOf(lasts)
	return figures, nil
}

func loseOne(o *options) (first, last time.Duration, held, lanes int, err error) {
	if err = makeAll(o); err != nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.limit, fmt.Errorf("not through within %s", o.limit))
	defer cancel()
	holder, err := startHolder(ctx, o)
	if err != nil {
		return
	}
	defer holder.end()
	rest := &survivors{o: o, lanes: make([]int, o.members-1), came: make([]time.Time, o.records)}
	defer rest.close()
	if err = rest.start(ctx); err != nil {
		return
	}
	shared := func() bool {
		all, some := rest.shared()
		its := holder.laneCount()
		return some && its > 0 && all+its == o.lanes
	}
	if err = wait(ctx, rest, "all members to have lanes", shared); err != nil {
		return
	}
	if err = fill(o); err != nil {
		return
	}
	// Key_Shared leaves some for the lanes of the holder, which are full
	count, since := 0, time.Now()
	through := func() bool {
		if now := rest.count() + holder.count(); now != count {
			count, since = now, time.Now()
		}
		return holder.count() > 0 && time.Since(since) >= time.Second
	}
	if err = wait(ctx, rest, "nothing more to come", through); err != nil {
		return
	}
	// in the middle between two heartbeats: what it has sent is known here when it is killed
	before := holder.lastBeat()
	if err = wait(ctx, rest, "a heartbeat", func() bool { return holder.lastBeat().After(before) }); err != nil {
		return
	}
	time.Sleep(200 * time.Millisecond)
	if err = holder.kill(); err != nil {
		return
	}
	over := holder.lastBeat().Add(sessionTimeout)
	numbers := holder.numbers()
	back := func() bool { return rest.have(numbers) }
	if err = wait(ctx, rest, "what the killed member had", back); err != nil {
		return
	}
	from, to := rest.span(numbers)
	return from.Sub(over), to.Sub(over), len(numbers), holder.laneCount(), nil
}

func wait(ctx context.Context, rest *survivors, what string, met func() bool) error {
	for !met() {
		if err := rest.failure(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// survivors are the members that stay.
type survivors struct {
	o       *options
	clients []*kgo.Client
	running sync.WaitGroup
	stop    context.CancelFunc

	sync.Mutex
	lanes  []int       // of each member
	came   []time.Time // of each record: when it came first
	seen   int
	failed error
}

func (s *survivors) start(ctx context.Context) error {
	ctx, s.stop = context.WithCancel(ctx)
	for i := range s.lanes {
		client, err := laneClient(s.o, append(told(func(change int) {
			s.Lock()
			s.lanes[i] += change
			s.Unlock()
		}), kgo.SessionTimeout(sessionTimeout), kgo.FetchMaxWait(fetchWait))...)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, client)
		s.running.Go(func() { s.consume(ctx, client) })
	}
	return nil
}

// told hears of lanes that a member gets and gives up.
func told(tell func(change int)) []kgo.Opt {
	count := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			for _, partitions := range topics {
				tell(sign * len(partitions))
			}
		}
	}
	return []kgo.Opt{
		kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1)),
	}
}

func (s *survivors) consume(ctx context.Context, client *kgo.Client) {
	for {
		fetches := client.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return
		}
		err := fetches.Err()
		s.Lock()
		fetches.EachRecord(func(record *kgo.Record) {
			number := binary.BigEndian.Uint64(record.Value)
			if s.came[number].IsZero() {
				s.came[number] = now
				s.seen++
			}
		})
		s.Unlock()
		if err == nil {
			err = commitPolled(ctx, client)
		}
		if err != nil && ctx.Err() == nil {
			s.Lock()
			s.failed = err
			s.Unlock()
			return
		}
	}
}

// shared says how many lanes they have, and whether each has some.
func (s *survivors) shared() (all int, each bool) {
	s.Lock()
	defer s.Unlock()
	each = true
	for _, one := range s.lanes {
		all += one
		each = each && one > 0
	}
	return all, each
}

func (s *survivors) count() int {
	s.Lock()
	defer s.Unlock()
	return s.seen
}

func (s *survivors) failure() error {
	s.Lock()
	defer s.Unlock()
	return s.failed
}

func (s *survivors) have(numbers []int) bool {
	s.Lock()
	defer s.Unlock()
	for _, number := range numbers {
		if s.came[number].IsZero() {
			return false
		}
	}
	return true
}

// span is when the first and the last of these came.
func (s *survivors) span(numbers []int) (first, last time.Time) {
	s.Lock()
	defer s.Unlock()
	for _, number := range numbers {
		when := s.came[number]
		if first.IsZero() || when.Before(first) {
			first = when
		}
		if when.After(last) {
			last = when
		}
	}
	return first, last
}

func (s *survivors) close() {
	if s.stop != nil {
		s.stop()
	}
	s.running.Wait()
	for _, client := range s.clients {
		client.CloseAllowingRebalance()
	}
}

// holder is the member that is killed: another process of this program, and what it has said.
type holder struct {
	process *exec.Cmd
	said    sync.WaitGroup

	sync.Mutex
	lanes   int
	beat    time.Time
	records map[int]bool
}

func startHolder(ctx context.Context, o *options) (*holder, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &holder{records: map[int]bool{}}
	h.process = exec.CommandContext(ctx, program, "hold", "-address", o.address, "-topic", o.topic, "-group", o.group,
		"-lanes", strconv.Itoa(o.lanes))
	h.process.Stderr = os.Stderr
	output, err := h.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.process.Start(); err != nil {
		return nil, err
	}
	h.said.Go(func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			h.hear(lines.Text())
		}
	})
	return h, nil
}

func (h *holder) hear(line string) {
	what, text, _ := strings.Cut(line, " ")
	number, err := strconv.Atoi(text)
	if err != nil {
		return
	}
	h.Lock()
	defer h.Unlock()
	switch what {
	case "lanes":
		h.lanes = number
	case "beat":
		h.beat = time.Unix(0, int64(number))
	case "record":
		h.records[number] = true
	}
}

func (h *holder) laneCount() int {
	h.Lock()
	defer h.Unlock()
	return h.lanes
}

func (h *holder) count() int {
	h.Lock()
	defer h.Unlock()
	return len(h.records)
}

func (h *holder) lastBeat() time.Time {
	h.Lock()
	defer h.Unlock()
	return h.beat
}

func (h *holder) numbers() []int {
	h.Lock()
	defer h.Unlock()
	found := make([]int, 0, len(h.records))
	for number := range h.records {
		found = append(found, number)
	}
	return found
}

// kill ends it at once; what it has said is known then.
func (h *holder) kill() error {
	err := h.process.Process.Kill()
	h.said.Wait()
	return err
}

func (h *holder) end() {
	_ = h.process.Process.Kill() // it may be dead already
	h.said.Wait()
	_ = h.process.Wait()
}

// beats prints when something left that keeps the session alive.
type beats struct{ print func(string, int64) }

func (b beats) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	const join, heartbeat, sync = 11, 12, 14
	if err == nil && (key == join || key == heartbeat || key == sync) {
		b.print("beat", time.Now().UnixNano())
	}
}

// hold is the process of the member that is to be killed: it reads, commits nothing, and says what it has.
func hold(o *options) (any, error) {
	var mutex sync.Mutex
	print := func(what string, number int64) {
		mutex.Lock()
		defer mutex.Unlock()
		fmt.Println(what, number)
	}
	lanes := int64(0)
	client, err := laneClient(o, append(told(func(change int) {
		lanes += int64(change)
		print("lanes", lanes)
	}), kgo.SessionTimeout(sessionTimeout), kgo.FetchMaxWait(fetchWait), kgo.WithHooks(beats{print}))...)
	if err != nil {
		return nil, err
	}
	for {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			print("record", int64(binary.BigEndian.Uint64(record.Value)))
		})
	}
}
