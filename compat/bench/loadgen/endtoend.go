package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// endToEnd sends `rate` records a second, each in its own request as with linger.ms=0, and a consumer that long-polls
// receives them. A record carries two times: when it was sent and when it was due by the schedule. The latency
// reported is from sending to the consumer; from the schedule it also holds the sender's own lateness.
type endToEndOptions struct {
	address, topic   string
	rate, size       int
	warmup, duration time.Duration
}

type endToEndResult struct {
	Load             string           `json:"load"`
	Seconds          float64          `json:"seconds"`
	Records          int64            `json:"records"`
	RecordsPerSecond float64          `json:"records_per_second"`
	Latency          latencies        `json:"latency_ms"`
	FromSchedule     latencies        `json:"latency_from_schedule_ms"`
	Acknowledged     latencies        `json:"acknowledged_ms"`
	AcknowledgedIn   map[string]int64 `json:"acknowledged_in_ns"`
	Errors           int64            `json:"errors"`
	ErrorKinds       map[string]int64 `json:"error_kinds"`
	Verified         bool             `json:"verified"`
	CPUSeconds       float64          `json:"generator_cpu_seconds"`
}

func endToEnd(o endToEndOptions) (*endToEndResult, error) {
	if o.size < 24 {
		return nil, fmt.Errorf("records must have 24 bytes at least")
	}
	topic, err := prepareTopic(o.address, o.topic, 1)
	if err != nil {
		return nil, err
	}
	// Blocking sockets and one thread each: no scheduler of ours between the kernel and the clock.
	out, err := openSocket(o.address)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	in, err := openSocket(o.address)
	if err != nil {
		return nil, err
	}
	defer in.Close()

	// Spin up the consumer and let it park before the first record.
	start := time.Now()
	due := func(i int64) time.Duration {
		return 50*time.Millisecond + time.Duration(i)*time.Second/time.Duration(o.rate)
	}
	total := int64((o.warmup + o.duration).Seconds() * float64(o.rate))
	skip := int64(o.warmup.Seconds() * float64(o.rate))
	res := &endToEndResult{}
	cpu := cpuSeconds()
	sentAt := make([]time.Duration, total)
	var latency, schedule, acknowledged histogram
	var failures [3]error
	var group sync.WaitGroup
	work := func(i int, f func() error) {
		group.Add(1)
		go func() {
			defer group.Done()
			runtime.LockOSThread()
			if failures[i] = f(); failures[i] != nil {
				// Wake the others from their blocking calls.
				out.shutdown()
				in.shutdown()
			}
		}()
	}
	work(0, func() error { return send(out, o, start, total, due, sentAt) })
	work(1, func() error {
		for i := range total {
			frame, err := out.readFrame()
			if err != nil {
				return fmt.Errorf("acknowledgement %d: %w", i, err)
			}
			now := time.Since(start)
			_, code, base, err := parseProduce(frame[4:])
			if err != nil {
				return err
			}
			if code != 0 || base != i {
				return fmt.Errorf("Produce %d: error %d, base offset %d", i, code, base)
			}
			if i >= skip {
				acknowledged.add(now - sentAt[i])
			}
		}
		return nil
	})
	work(2, func() error {
		return receive(in, topic.id, start, skip, total, due(total)+30*time.Second, &latency, &schedule)
	})
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	res.Records = total - skip
	res.Seconds = round((due(total) - due(skip)).Seconds(), 3)
	res.RecordsPerSecond = round(float64(res.Records)/res.Seconds, 1)
	res.Latency, res.FromSchedule, res.Acknowledged = latency.report(), schedule.report(), acknowledged.report()
	res.AcknowledgedIn = acknowledged.buckets()
	res.Verified = true
	res.CPUSeconds = round(cpuSeconds()-cpu, 3)
	return res, nil
}

func send(out *socket, o endToEndOptions, start time.Time, total int64, due func(int64) time.Duration, sentAt []time.Duration) error {
	frame, at := produceFrame(o.topic, 0, -1, buildBatch(1, o.size, time.Now()))
	batch := frame[at : len(frame)-3] // three empty tag sections follow it
	value := len(batch) - 1 - o.size  // the count of headers is the last byte
	for i := range total {
		wait := due(i) - time.Since(start)
		if wait > 0 {
			pause := syscall.NsecToTimespec(int64(wait))
			_ = syscall.Nanosleep(&pause, nil) // woken early is sent early, by a signal only
		}
		binary.BigEndian.PutUint32(frame[correlationAt:], uint32(i))
		now := time.Since(start)
		sentAt[i] = now
		stamp := uint64(time.Now().UnixMilli())
		binary.BigEndian.PutUint64(batch[27:], stamp)
		binary.BigEndian.PutUint64(batch[35:], stamp)
		binary.BigEndian.PutUint64(batch[value:], uint64(now))
		binary.BigEndian.PutUint64(batch[value+8:], uint64(due(i)))
		binary.BigEndian.PutUint64(batch[value+16:], uint64(i))
		seal(batch)
		if _, err := out.Write(frame); err != nil {
			return err
		}
	}
	return nil
}

// receive long-polls until the last record; each must come once and in order.
func receive(in *socket, topic [16]byte, start time.Time, skip, total int64, limit time.Duration, latency, schedule *histogram) error {
	frame, at := fetchFrame(topic, 0, 500, 1, 1<<20)
	var position int64
	for position < total {
		binary.BigEndian.PutUint64(frame[at:], uint64(position))
		if _, err := in.Write(frame); err != nil {
			return err
		}
		answer, err := in.readFrame()
		if err != nil {
			return fmt.Errorf("Fetch at %d: %w", position, err)
		}
		now := time.Since(start)
		code, _, records, err := parseFetch(answer[4:])
		if err != nil || code != 0 {
			return fmt.Errorf("Fetch at %d: error %d %v", position, code, err)
		}
		for len(records) >= batchHeader {
			size := int(binary.BigEndian.Uint32(records[batchLengthAt:])) + 12
			if size < batchHeader || size > len(records) {
				break
			}
			batch := records[:size]
			records = records[size:]
			offset := int64(binary.BigEndian.Uint64(batch))
			sent, due, number, ok := stamps(batch)
			if !ok || offset != position || number != position {
				return fmt.Errorf("Fetch at %d: got the record of offset %d, number %d", position, offset, number)
			}
			if position >= skip {
				latency.add(now - sent)
				schedule.add(now - due)
			}
			position++
		}
		if now > limit {
			return fmt.Errorf("record %d of %d had not come in time", position, total)
		}
	}
	return nil
}

// stamps reads the times and the number from a batch of one record.
func stamps(batch []byte) (sent, due time.Duration, number int64, ok bool) {
	r := reader{b: batch, pos: batchHeader}
	r.uvarint() // length
	r.i8()
	r.uvarint() // timestamp delta
	r.uvarint() // offset delta
	r.uvarint() // key: -1
	r.uvarint() // value's length
	sent, due, number = time.Duration(r.i64()), time.Duration(r.i64()), r.i64()
	return sent, due, number, !r.bad
}

// socket is a blocking descriptor outside Go's poller.
type socket struct {
	fd     int
	input  []byte
	filled int
	taken  int
}

func openSocket(address string) (*socket, error) {
	fd, err := dial(address)
	if err != nil {
		return nil, err
	}
	// A server that stops answering must not hang the run.
	limit := syscall.NsecToTimeval(int64(30 * time.Second))
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &socket{fd: fd, input: make([]byte, 2<<20)}, nil
}

func (s *socket) Close() error { return syscall.Close(s.fd) }
func (s *socket) shutdown()    { _ = syscall.Shutdown(s.fd, syscall.SHUT_RDWR) }

func (s *socket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := syscall.Write(s.fd, b[done:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return done, os.NewSyscallError("write", err)
		}
		done += n
	}
	return done, nil
}

// readFrame gives the next answer from its correlation id on; it is valid until the next call.
func (s *socket) readFrame() ([]byte, error) {
	for {
		have := s.filled - s.taken
		if have >= 4 {
			size := int(binary.BigEndian.Uint32(s.input[s.taken:]))
			if size < 4 || size+4 > len(s.input) {
				return nil, fmt.Errorf("an answer of %d bytes", size)
			}
			if have >= 4+size {
				frame := s.input[s.taken+4 : s.taken+4+size]
				s.taken += 4 + size
				return frame, nil
			}
		}
		if s.taken > 0 {
			copy(s.input, s.input[s.taken:s.filled])
			s.filled, s.taken = have, 0
		}
		n, err := syscall.Read(s.fd, s.input[s.filled:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("read", err)
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		s.filled += n
	}
}
