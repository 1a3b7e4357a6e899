package compat

import (
	"context"
	"sync"
	"time"
)

// Handover takes what the goroutines of a member read to whoever polls. A goroutine goes on, or ends because its partition
// was revoked, only with the next poll: until then what it gave is being worked on.
type Handover struct {
	offers chan offer
	mutex  sync.Mutex
	held   []chan struct{}
}

type offer struct {
	records []Record
	done    chan struct{}
}

// NewHandover with nothing in it.
func NewHandover() *Handover { return &Handover{offers: make(chan offer)} }

// Give waits until the records were worked on; false when ctx ended before anybody took them.
func (h *Handover) Give(ctx context.Context, records ...Record) bool {
	one := offer{records, make(chan struct{})}
	select {
	case h.offers <- one:
		<-one.done
		return true
	case <-ctx.Done():
		return false
	}
}

// Poll gives what is offered within some 200 ms; what the last one gave counts as worked on.
func (h *Handover) Poll() ([]Record, error) {
	h.Release()
	records, patience := []Record{}, time.After(200*time.Millisecond)
	select {
	case one := <-h.offers:
		records = append(records, h.hold(one)...)
	case <-patience:
	}
	for {
		select {
		case one := <-h.offers:
			records = append(records, h.hold(one)...)
		default:
			return records, nil
		}
	}
}

func (h *Handover) hold(one offer) []Record {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.held = append(h.held, one.done)
	return one.records
}

// Release lets the goroutines go on.
func (h *Handover) Release() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, done := range h.held {
		close(done)
	}
	h.held = nil
}
