package main

import (
	"fmt"
	"sync"
	"time"
)

// A classic consumer group of many members, each on its own connection as real clients are: all join at once, get
// their assignments, heartbeat; then one leaves and the rest settle again.

const (
	errUnknownMember       = 25
	errRebalanceInProgress = 27
	errIllegalGeneration   = 22
	errMemberIDRequired    = 79
)

type groupResult struct {
	Load     string  `json:"load"`
	Members  int     `json:"members"`
	SettleMS float64 `json:"settled_ms"`
	LeaveMS  float64 `json:"leave_settled_ms"`
	// How often a member got a new generation until all had settled.
	Rounds   int64 `json:"join_rounds"`
	Errors   int64 `json:"errors"`
	Verified bool  `json:"verified"`
}

type member struct {
	client     *client
	id         string
	generation int32
}

// groupState is what the members tell the one who waits for them.
type groupState struct {
	sync.Mutex
	generations map[int]int32 // by member; only of those that hold an assignment
	changed     chan struct{}
	rounds      int64
	err         error
}

func (g *groupState) set(index int, generation int32) {
	g.Lock()
	defer g.Unlock()
	if generation < 0 {
		delete(g.generations, index)
	} else {
		g.generations[index] = generation
		g.rounds++
	}
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

func (g *groupState) fail(err error) {
	g.Lock()
	if g.err == nil {
		g.err = err
	}
	g.Unlock()
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// await waits until n members hold an assignment of one and the same generation, newer than `after`.
func (g *groupState) await(n int, after int32, limit time.Duration) (int32, error) {
	deadline := time.After(limit)
	for {
		g.Lock()
		err, settled, generation := g.err, len(g.generations) == n, int32(-1)
		for _, v := range g.generations {
			if generation < 0 {
				generation = v
			}
			settled = settled && v == generation
		}
		have := len(g.generations)
		g.Unlock()
		if err != nil {
			return 0, err
		}
		if settled && generation > after {
			return generation, nil
		}
		select {
		case <-g.changed:
		case <-deadline:
			return 0, fmt.Errorf("%d of %d members have settled after %v", have, n, limit)
		}
	}
}

// groupRun measures one group.
func groupRun(address, group string, members int, heartbeat time.Duration) (*groupResult, error) {
	first, err := connect(address)
	if err != nil {
		return nil, err
	}
	defer first.close()
	// The first group of a broker makes it create the topic of offsets: not what is measured here.
	if err := awaitCoordinator(first, group); err != nil {
		return nil, err
	}
	state := &groupState{generations: map[int]int32{}, changed: make(chan struct{}, 1)}
	leave := make(chan struct{})
	stop := make(chan struct{})
	var all sync.WaitGroup
	clients := make([]*client, members)
	for i := range clients {
		if clients[i], err = connect(address); err != nil {
			return nil, err
		}
		defer clients[i].close()
	}
	begin := time.Now()
	for i := range members {
		quit := stop
		if i == members-1 {
			quit = leave
		}
		all.Add(1)
		go func() {
			defer all.Done()
			m := &member{client: clients[i]}
			if err := m.live(group, i, heartbeat, state, quit, i == members-1); err != nil {
				state.fail(fmt.Errorf("member %d: %w", i, err))
			}
		}()
	}
	res := &groupResult{Members: members}
	generation, err := state.await(members, -1, 2*time.Minute)
	if err == nil {
		res.SettleMS = millis(time.Since(begin))
		state.Lock()
		res.Rounds = state.rounds
		state.Unlock()
		// Let the heartbeats of the members spread as they fall.
		time.Sleep(2 * heartbeat)
		begin = time.Now()
		close(leave)
		_, err = state.await(members-1, generation, 2*time.Minute)
		res.LeaveMS = millis(time.Since(begin))
	}
	if err != nil {
		// Members may hang in a long poll: closing their connections ends them.
		for _, c := range clients {
			c.close()
		}
	}
	close(stop)
	all.Wait()
	if err != nil {
		return nil, err
	}
	res.Verified = true
	return res, nil
}

func awaitCoordinator(c *client, group string) error {
	for attempt := 0; ; attempt++ {
		w := request(apiFindCoordinator, 2, false)
		w.str(group)
		w.i8(0)
		r, err := c.call(w, false, 30*time.Second)
		if err != nil {
			return err
		}
		r.i32()
		code := r.i16()
		if code == 0 {
			// Found is not loaded: a heartbeat of nobody is answered by error 25 once it is.
			m := &member{client: c, id: "nobody"}
			if code, err = m.heartbeat(group); err != nil {
				return err
			}
			if code == errUnknownMember {
				return nil
			}
		}
		if attempt == 300 {
			return fmt.Errorf("FindCoordinator: error %d", code)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// live is a member's life: join, sync, heartbeat, join again when told; at quit it leaves.
func (m *member) live(group string, index int, interval time.Duration, state *groupState, quit <-chan struct{}, leaver bool) error {
	for {
		if err := m.join(group); err != nil {
			if err == errAgain {
				continue
			}
			return err
		}
		state.set(index, m.generation)
		ticker := time.NewTicker(interval)
		for rejoin := false; !rejoin; {
			select {
			case <-quit:
				ticker.Stop()
				if leaver {
					state.set(index, -1)
				}
				return m.leave(group)
			case <-ticker.C:
			}
			code, err := m.heartbeat(group)
			if err != nil {
				return err
			}
			switch code {
			case 0:
			case errRebalanceInProgress, errIllegalGeneration:
				rejoin = true
			case errUnknownMember:
				m.id, rejoin = "", true
			default:
				return fmt.Errorf("Heartbeat: error %d", code)
			}
		}
		ticker.Stop()
	}
}

var errAgain = fmt.Errorf("join again")

// join is JoinGroup (twice for a new member, KIP-394) and SyncGroup.
func (m *member) join(group string) error {
	for {
		w := request(apiJoinGroup, 5, false)
		w.str(group)
		w.i32(45000)
		w.i32(60000)
		w.str(m.id)
		w.strNull()
		w.str("consumer")
		w.i32(1)
		w.str("range")
		// A consumer's subscription, version 0: one topic, no user data.
		subscription := &writer{}
		subscription.i16(0)
		subscription.i32(1)
		subscription.str("loadgen-group")
		subscription.i32(-1)
		w.bytes(subscription.b)
		r, err := m.client.call(w, false, 2*time.Minute)
		if err != nil {
			return fmt.Errorf("JoinGroup: %w", err)
		}
		r.i32()
		code := r.i16()
		generation := r.i32()
		r.str()
		leader := r.str()
		id := r.str()
		switch code {
		case 0:
		case errMemberIDRequired:
			m.id = id
			continue
		case errUnknownMember:
			m.id = ""
			continue
		default:
			return fmt.Errorf("JoinGroup: error %d", code)
		}
		m.id, m.generation = id, generation
		var members []string
		for n := r.array(); n > 0; n-- {
			members = append(members, r.str())
			r.str()
			r.bytes()
		}
		if r.bad {
			return fmt.Errorf("JoinGroup: the answer is cut short")
		}
		if leader != m.id {
			members = nil
		}
		return m.sync(group, members)
	}
}

func (m *member) sync(group string, members []string) error {
	w := request(apiSyncGroup, 3, false)
	w.str(group)
	w.i32(m.generation)
	w.str(m.id)
	w.strNull()
	w.i32(int32(len(members)))
	for i, id := range members {
		w.str(id)
		w.bytes(bigEndian32(uint32(i)))
	}
	r, err := m.client.call(w, false, 2*time.Minute)
	if err != nil {
		return fmt.Errorf("SyncGroup: %w", err)
	}
	r.i32()
	code, assignment := r.i16(), r.bytes()
	switch code {
	case 0:
		if len(assignment) != 4 || r.bad {
			return fmt.Errorf("SyncGroup: an assignment of %d bytes", len(assignment))
		}
		return nil
	case errRebalanceInProgress, errIllegalGeneration:
		return errAgain
	case errUnknownMember:
		m.id = ""
		return errAgain
	default:
		return fmt.Errorf("SyncGroup: error %d", code)
	}
}

func (m *member) heartbeat(group string) (int16, error) {
	w := request(apiHeartbeat, 3, false)
	w.str(group)
	w.i32(m.generation)
	w.str(m.id)
	w.strNull()
	r, err := m.client.call(w, false, 30*time.Second)
	if err != nil {
		return 0, fmt.Errorf("Heartbeat: %w", err)
	}
	r.i32()
	return r.i16(), nil
}

func (m *member) leave(group string) error {
	w := request(apiLeaveGroup, 3, false)
	w.str(group)
	w.i32(1)
	w.str(m.id)
	w.strNull()
	r, err := m.client.call(w, false, 30*time.Second)
	if err != nil {
		return fmt.Errorf("LeaveGroup: %w", err)
	}
	r.i32()
	if code := r.i16(); code != 0 {
		return fmt.Errorf("LeaveGroup: error %d", code)
	}
	return nil
}
