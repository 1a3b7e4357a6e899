package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// The engine keeps `depth` requests in flight on each of many connections from one thread with epoll: one read,
// one writev for all that became free, no allocation. It so needs a few microseconds a request, and a server on
// the same two cores is not starved by its own load.

// slot is one request in flight. Its frame is reused when its answer has come.
type slot struct {
	frame  []byte
	sent   time.Duration // since the run's start
	offset int64         // for the job's own use
}

type connection struct {
	fd      int
	index   int
	slots   []slot
	head    int // the oldest request in flight
	flying  int
	issued  int64
	queue   [][]byte // frames, or the rest of one, not yet taken by the kernel
	waiting bool     // for EPOLLOUT
	input   []byte
	filled  int
	seq     int32 // correlation ids
}

// job says what is sent and judges what comes back.
type job interface {
	// frame makes a slot's frame for the first time.
	frame(c *connection, s *slot)
	// next prepares the slot's frame to be sent (the engine has set the correlation id).
	next(c *connection, s *slot)
	// check judges an answer (what follows the correlation id); it returns the payload bytes and records moved.
	check(c *connection, s *slot, answer []byte) (bytes, records int, err error)
}

type plan struct {
	address     string
	connections int
	depth       int
	warmup      time.Duration // at least
	settle      time.Duration // at most, until the rate stands still; 0: no longer than warmup
	duration    time.Duration
	count       int64 // stop after so many requests of each connection instead (no warm-up)
	inputSize   int   // bytes of each connection's read buffer to start with
}

// result is what a run prints.
type result struct {
	Load              string           `json:"load"`
	WarmupSeconds     float64          `json:"warmup_seconds"`
	Seconds           float64          `json:"seconds"`
	Requests          int64            `json:"requests"`
	RequestsPerSecond float64          `json:"requests_per_second"`
	Records           int64            `json:"records"`
	RecordsPerSecond  float64          `json:"records_per_second"`
	Megabytes         float64          `json:"megabytes"`
	MegabytesPerSec   float64          `json:"megabytes_per_second"`
	Latency           latencies        `json:"latency_ms"`
	Errors            int64            `json:"errors"`
	ErrorKinds        map[string]int64 `json:"error_kinds"`
	Verified          bool             `json:"verified"`
	// Requests answered in each whole second, warm-up included: shows whether the figures had settled.
	Series     []int64 `json:"series"`
	CPUSeconds float64 `json:"generator_cpu_seconds"`
	// Records acknowledged from the first request on, warm-up and drain included.
	AllRecords int64 `json:"all_records"`
}

func (r *result) fail(err error) {
	r.Errors++
	if r.ErrorKinds == nil {
		r.ErrorKinds = map[string]int64{}
	}
	kind := err.Error()
	if len(r.ErrorKinds) >= 20 && r.ErrorKinds[kind] == 0 {
		kind = "others"
	}
	r.ErrorKinds[kind]++
}

const drainTime = 15 * time.Second

// run drives the job until the plan ends, then waits for what is in flight.
func run(p plan, j job) (*result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	poll, err := syscall.EpollCreate1(0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(poll)
	conns := make([]*connection, p.connections)
	for i := range conns {
		fd, err := dial(p.address)
		if err != nil {
			return nil, err
		}
		defer syscall.Close(fd)
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, err
		}
		c := &connection{fd: fd, index: i, slots: make([]slot, p.depth), input: make([]byte, max(p.inputSize, 1<<16))}
		conns[i] = c
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
			return nil, err
		}
		for s := range c.slots {
			j.frame(c, &c.slots[s])
		}
	}

	res := &result{}
	hist := &histogram{}
	start := time.Now()
	// set anew when the warm-up ends
	measuredFrom, measuredTo := time.Duration(0), p.duration
	if p.count > 0 {
		measuredTo = time.Hour
	}
	var flying int
	var cpuFrom, cpuTo float64
	cpuFrom = cpuSeconds()
	measuring := p.count > 0 || (p.warmup == 0 && p.settle == 0)
	running := true

	issue := func(c *connection, now time.Duration) {
		s := &c.slots[(c.head+c.flying)%len(c.slots)]
		c.seq++
		binary.BigEndian.PutUint32(s.frame[correlationAt:], uint32(c.seq))
		j.next(c, s)
		s.sent = now
		c.flying++
		flying++
		c.issued++
		c.queue = append(c.queue, s.frame)
	}
	for _, c := range conns {
		for range c.slots {
			if p.count > 0 && c.issued >= p.count {
				break
			}
			issue(c, time.Since(start))
		}
		if err := c.flush(poll); err != nil {
			return nil, err
		}
	}

	events := make([]syscall.EpollEvent, 256)
	var ended time.Duration
	for flying > 0 {
		n, err := syscall.EpollWait(poll, events, 100)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return nil, err
		}
		now := time.Since(start)
		if !measuring && now >= p.warmup && (now >= p.settle || settled(res.Series, int(now/time.Second))) {
			measuring, cpuFrom = true, cpuSeconds()
			measuredFrom, measuredTo = now, now+p.duration
		}
		if running && measuring && now >= measuredTo {
			running, ended, cpuTo = false, now, cpuSeconds()
		}
		if !running && now > ended+drainTime {
			res.fail(fmt.Errorf("%d requests were never answered", flying))
			break
		}
		for _, event := range events[:max(n, 0)] {
			c := conns[event.Fd]
			if event.Events&syscall.EPOLLOUT != 0 {
				if err := c.flush(poll); err != nil {
					return nil, err
				}
			}
			if event.Events&(syscall.EPOLLIN|syscall.EPOLLHUP|syscall.EPOLLERR) == 0 {
				continue
			}
			got, err := syscall.Read(c.fd, c.input[c.filled:])
			if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("connection %d: %w", c.index, err)
			}
			if got == 0 {
				return nil, fmt.Errorf("connection %d was closed by the server with %d requests in flight", c.index, c.flying)
			}
			c.filled += got
			now = time.Since(start)
			position := 0
			for c.filled-position >= 4 {
				size := int(binary.BigEndian.Uint32(c.input[position:]))
				if size < 4 || size > 1<<30 {
					return nil, fmt.Errorf("connection %d: an answer of %d bytes", c.index, size)
				}
				if c.filled-position < 4+size {
					if need := 4 + size; need > len(c.input) {
						larger := make([]byte, need+need/4)
						copy(larger, c.input[position:c.filled])
						c.input, c.filled, position = larger, c.filled-position, 0
					}
					break
				}
				frame := c.input[position+4 : position+4+size]
				position += 4 + size
				if c.flying == 0 {
					return nil, fmt.Errorf("connection %d: an answer that nobody asked for", c.index)
				}
				s := &c.slots[c.head]
				wanted := binary.BigEndian.Uint32(s.frame[correlationAt:])
				if got := binary.BigEndian.Uint32(frame); got != wanted {
					return nil, fmt.Errorf("connection %d: correlation id %d, expected %d", c.index, got, wanted)
				}
				bytes, records, err := j.check(c, s, frame[4:])
				c.head = (c.head + 1) % len(c.slots)
				c.flying--
				flying--
				if err != nil {
					res.fail(err)
				} else {
					res.AllRecords += int64(records)
					for second := int(now / time.Second); len(res.Series) <= second; {
						res.Series = append(res.Series, 0)
					}
					res.Series[now/time.Second]++
					if measuring && running {
						res.Requests++
						res.Records += int64(records)
						res.Megabytes += float64(bytes)
						hist.add(now - s.sent)
					}
				}
				if running && (p.count == 0 || c.issued < p.count) {
					issue(c, now)
				}
			}
			if position > 0 {
				copy(c.input, c.input[position:c.filled])
				c.filled -= position
			}
			if len(c.queue) > 0 && !c.waiting {
				if err := c.flush(poll); err != nil {
					return nil, err
				}
			}
		}
	}
	if running {
		ended, cpuTo = time.Since(start), cpuSeconds()
	}
	seconds := (ended - measuredFrom).Seconds()
	res.WarmupSeconds = round(measuredFrom.Seconds(), 3)
	res.Seconds = round(seconds, 3)
	res.Megabytes = round(res.Megabytes/1e6, 3)
	if seconds > 0 {
		res.RequestsPerSecond = round(float64(res.Requests)/seconds, 1)
		res.RecordsPerSecond = round(float64(res.Records)/seconds, 1)
		res.MegabytesPerSec = round(res.Megabytes/seconds, 2)
	}
	res.Latency = hist.report()
	res.CPUSeconds = round(cpuTo-cpuFrom, 3)
	return res, nil
}

const (
	window = 5    // seconds
	still  = 0.03 // of the rate
)

// settled says whether the answers of the last whole seconds were as many as those of the seconds before them.
func settled(series []int64, seconds int) bool {
	if seconds < 2*window || len(series) < seconds {
		return false
	}
	var last, before int64
	for i := 1; i <= window; i++ {
		last += series[seconds-i]
		before += series[seconds-window-i]
	}
	return math.Abs(float64(last-before)) <= still*float64(before)
}

// flush gives the kernel what it takes, and waits for EPOLLOUT with the rest.
func (c *connection) flush(poll int) error {
	var vectors [64]syscall.Iovec
	for len(c.queue) > 0 {
		n := 0
		for n < len(vectors) && n < len(c.queue) {
			vectors[n].Base = &c.queue[n][0]
			vectors[n].SetLen(len(c.queue[n]))
			n++
		}
		wrote, _, errno := syscall.Syscall(syscall.SYS_WRITEV, uintptr(c.fd), uintptr(unsafe.Pointer(&vectors[0])), uintptr(n))
		switch errno {
		case 0:
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return c.wait(poll, true)
		default:
			return fmt.Errorf("connection %d: %w", c.index, errno)
		}
		left := int(wrote)
		done := 0
		for done < len(c.queue) && left >= len(c.queue[done]) {
			left -= len(c.queue[done])
			done++
		}
		c.queue = c.queue[:copy(c.queue, c.queue[done:])]
		if left > 0 {
			c.queue[0] = c.queue[0][left:]
		}
	}
	return c.wait(poll, false)
}

func (c *connection) wait(poll int, writable bool) error {
	if c.waiting == writable {
		return nil
	}
	c.waiting = writable
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c.index)}
	if writable {
		event.Events |= syscall.EPOLLOUT
	}
	return syscall.EpollCtl(poll, syscall.EPOLL_CTL_MOD, c.fd, &event)
}
