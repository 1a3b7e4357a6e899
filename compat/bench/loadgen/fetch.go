package main

import (
	"encoding/binary"
	"fmt"
	"time"
)

// fetchJob reads partitions that were filled before, from the start to the end and again: what it reads is hot.
// Connection i reads partition i modulo the number of partitions. Each request is a full (sessionless) fetch.
type fetchJob struct {
	topic      topicInfo
	partitions int
	maxBytes   int32
	end        int64 // of each partition
	oneBatch   bool  // each answer must hold exactly one batch
	committed  bool  // read_committed
	checked    []int // answers of each connection, to check a CRC now and then
}

// fetchFrame is Fetch v16 without a session; it returns the frame and where the fetch offset stands.
func fetchFrame(topic [16]byte, partition int32, maxWait, minBytes, maxBytes int32) ([]byte, int) {
	return fetchFrameOf(topic, partition, maxWait, minBytes, maxBytes, 0)
}

func fetchFrameOf(topic [16]byte, partition int32, maxWait, minBytes, maxBytes int32, isolation int8) ([]byte, int) {
	w := request(apiFetch, 16, true)
	w.i32(maxWait)
	w.i32(minBytes)
	w.i32(maxBytes)
	w.i8(isolation)
	w.i32(0) // no session …
	w.i32(-1)
	w.compactArray(1)
	w.raw(topic[:])
	w.compactArray(1)
	w.i32(partition)
	w.i32(-1)
	at := len(w.b)
	w.i64(0)
	w.i32(-1)
	w.i64(-1)
	w.i32(maxBytes)
	w.tags()
	w.tags()
	w.compactArray(0)
	w.compactString("")
	w.tags()
	return w.finish(), at
}

// parseFetch gives the error, the high watermark and the records of an answer about one partition.
func parseFetch(answer []byte) (code int16, highWatermark int64, records []byte, err error) {
	r := reader{b: answer}
	r.tags()
	r.i32()
	if code = r.i16(); code != 0 {
		return code, 0, nil, nil
	}
	r.i32()
	topics := r.compactArray()
	if topics == 0 && !r.bad {
		return 0, 0, nil, nil // nothing new
	}
	r.take(16)
	if partitions := r.compactArray(); topics != 1 || partitions != 1 {
		return 0, 0, nil, fmt.Errorf("Fetch: %d topics, %d partitions in the answer", topics, partitions)
	}
	r.i32()
	code = r.i16()
	highWatermark = r.i64()
	r.i64()
	r.i64()
	for n := r.compactArray(); n > 0; n-- {
		r.take(16)
		r.tags()
	}
	r.i32()
	records = r.compactBytes()
	if r.bad {
		return 0, 0, nil, fmt.Errorf("Fetch: the answer is cut short")
	}
	return code, highWatermark, records, nil
}

func (j *fetchJob) frame(c *connection, s *slot) {
	var isolation int8
	if j.committed {
		isolation = 1
	}
	frame, at := fetchFrameOf(j.topic.id, int32(c.index%j.partitions), 500, 1, j.maxBytes, isolation)
	s.frame = frame
	if at != fetchOffsetAt {
		panic("fetchOffsetAt is wrong")
	}
	// Spread the readers over the log.
	s.offset = int64(c.index/j.partitions) * 7 % j.end
}

// fetchOffsetAt is where the fetch offset stands in fetchFrame's frame (it is the same for all).
var fetchOffsetAt = func() int { _, at := fetchFrame([16]byte{}, 0, 0, 0, 0); return at }()

func (j *fetchJob) next(_ *connection, s *slot) {
	binary.BigEndian.PutUint64(s.frame[fetchOffsetAt:], uint64(s.offset))
}

func (j *fetchJob) check(c *connection, s *slot, answer []byte) (int, int, error) {
	code, highWatermark, records, err := parseFetch(answer)
	if err != nil {
		return 0, 0, err
	}
	if code != 0 {
		return 0, 0, fmt.Errorf("Fetch: error %d", code)
	}
	base, next, batches, ok := walkBatches(records)
	asked := s.offset
	s.offset = 0
	switch {
	case !ok:
		return 0, 0, fmt.Errorf("Fetch at %d of %d: no whole batch in %d bytes", asked, highWatermark, len(records))
	case base > asked || next <= asked:
		return 0, 0, fmt.Errorf("Fetch at %d: got %d to %d", asked, base, next)
	case j.oneBatch && batches != 1:
		return 0, 0, fmt.Errorf("Fetch at %d: %d batches, expected one", asked, batches)
	case highWatermark != j.end:
		return 0, 0, fmt.Errorf("Fetch at %d: high watermark %d, expected %d", asked, highWatermark, j.end)
	}
	if j.checked[c.index]++; j.checked[c.index]%64 == 1 && !validCRC(records) {
		return 0, 0, fmt.Errorf("Fetch at %d: wrong CRC", asked)
	}
	if next < j.end {
		s.offset = next
	}
	return len(records), int(next - asked), nil
}

type fetchOptions struct {
	address, topic           string
	connections, partitions  int
	fillBatches              int // of each partition
	records, size            int // of each batch
	maxBytes                 int
	oneBatch, once           bool // once: as many answers as one pass has, and no warm-up
	warmup, settle, duration time.Duration
}

func fetch(o fetchOptions) (*result, error) {
	if o.oneBatch {
		// The broker sends the first batch whole however small the limit is (KIP-74), and then nothing more.
		o.maxBytes = 1
	}
	topic, err := prepareTopic(o.address, o.topic, o.partitions)
	if err != nil {
		return nil, err
	}
	fill, err := newProduceJob(o.address, o.topic, o.partitions, o.partitions, o.records, o.size, -1, false)
	if err != nil {
		return nil, err
	}
	filled, err := run(plan{
		address: o.address, connections: o.partitions, depth: 4,
		count: int64(o.fillBatches),
	}, fill)
	if err != nil {
		return nil, err
	}
	if filled.Errors > 0 {
		return nil, fmt.Errorf("filling the topic: %v", filled.ErrorKinds)
	}
	c, err := connect(o.address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	stored, err := c.endOffsets(o.topic, o.partitions)
	if err != nil {
		return nil, err
	}
	if stored != filled.AllRecords || stored%int64(o.partitions) != 0 {
		return nil, fmt.Errorf("%d records acknowledged, %d stored", filled.AllRecords, stored)
	}
	j := &fetchJob{
		topic: topic, partitions: o.partitions, maxBytes: int32(o.maxBytes), end: stored / int64(o.partitions),
		oneBatch: o.oneBatch, checked: make([]int, o.connections),
	}
	var count int64
	if o.once {
		// Answers end with a whole batch or are cut at maxBytes: never more than this in a pass.
		count = max(1, int64(o.fillBatches)*int64(o.records)*int64(o.size)/int64(o.maxBytes))
	}
	res, err := run(plan{
		address: o.address, connections: o.connections, depth: 1, count: count,
		warmup: o.warmup, settle: o.settle, duration: o.duration, inputSize: o.maxBytes + o.maxBytes/4,
	}, j)
	if err != nil {
		return nil, err
	}
	res.Verified = res.Errors == 0
	return res, nil
}
