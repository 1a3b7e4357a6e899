package main

import (
	"fmt"
	"time"
)

// produceJob sends one batch a request; connection i writes to partition i modulo the number of partitions, so
// what one connection gets acknowledged must rise.
type produceJob struct {
	topic      string
	partitions int
	records    int // a batch
	recordSize int
	acks       int16
	// One idempotent producer a connection; nil without idempotence.
	producers []producer
	// The batch without producer fields, copied into each slot.
	batch []byte
	// The last base offset each connection got.
	last []int64
}

type producer struct {
	id       int64
	epoch    int16
	sequence int32
}

func newProduceJob(address, topic string, partitions, connections, records, recordSize int, acks int16, idempotent bool) (*produceJob, error) {
	j := &produceJob{
		topic: topic, partitions: partitions, records: records, recordSize: recordSize, acks: acks,
		batch: buildBatch(records, recordSize, time.Now()),
		last:  make([]int64, connections),
	}
	for i := range j.last {
		j.last[i] = -1
	}
	if !idempotent {
		return j, nil
	}
	c, err := connect(address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for range connections {
		id, epoch, err := c.initProducerID()
		if err != nil {
			return nil, err
		}
		j.producers = append(j.producers, producer{id: id, epoch: epoch})
	}
	return j, nil
}

// produceFrame is Produce v11; it returns the frame and where the batch begins.
func produceFrame(topic string, partition int32, acks int16, batch []byte) ([]byte, int) {
	w := request(apiProduce, 11, true)
	w.compactNull() // transactional id
	w.i16(acks)
	w.i32(30000)
	w.compactArray(1)
	w.compactString(topic)
	w.compactArray(1)
	w.i32(partition)
	w.uvarint(uint64(len(batch)) + 1)
	at := len(w.b)
	w.raw(batch)
	w.tags()
	w.tags()
	w.tags()
	return w.finish(), at
}

func (j *produceJob) frame(c *connection, s *slot) {
	frame, at := produceFrame(j.topic, int32(c.index%j.partitions), j.acks, j.batch)
	s.frame, s.offset = frame, int64(at)
}

func (j *produceJob) next(c *connection, s *slot) {
	if j.producers == nil {
		return
	}
	p := &j.producers[c.index]
	batch := s.frame[s.offset : int(s.offset)+len(j.batch)]
	setProducer(batch, p.id, p.epoch, p.sequence)
	p.sequence = nextSequence(p.sequence, j.records)
}

func (j *produceJob) check(c *connection, _ *slot, answer []byte) (int, int, error) {
	partition, code, base, err := parseProduce(answer)
	switch {
	case err != nil:
		return 0, 0, err
	case code != 0:
		return 0, 0, fmt.Errorf("Produce: error %d", code)
	case int(partition) != c.index%j.partitions:
		return 0, 0, fmt.Errorf("Produce: answered for another partition")
	case base <= j.last[c.index]:
		return 0, 0, fmt.Errorf("Produce: base offset %d after %d", base, j.last[c.index])
	}
	j.last[c.index] = base
	return len(j.batch), j.records, nil
}

// parseProduce reads what matters of a Produce v11 answer to a request for one partition.
func parseProduce(answer []byte) (partition int32, code int16, base int64, err error) {
	r := reader{b: answer}
	r.tags()
	if topics := r.compactArray(); topics != 1 {
		return 0, 0, 0, fmt.Errorf("Produce: %d topics in the answer", topics)
	}
	r.compactBytes()
	if partitions := r.compactArray(); partitions != 1 {
		return 0, 0, 0, fmt.Errorf("Produce: %d partitions in the answer", partitions)
	}
	partition, code, base = r.i32(), r.i16(), r.i64()
	if r.bad {
		return 0, 0, 0, fmt.Errorf("Produce: the answer is cut short")
	}
	return partition, code, base, nil
}

type produceOptions struct {
	address, topic                                string
	connections, depth, records, size, partitions int
	acks                                          int
	idempotent                                    bool
	warmup, settle, duration                      time.Duration
	count                                         int64
}

func produce(o produceOptions) (*result, error) {
	if _, err := prepareTopic(o.address, o.topic, o.partitions); err != nil {
		return nil, err
	}
	c, err := connect(o.address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	before, err := c.endOffsets(o.topic, o.partitions)
	if err != nil {
		return nil, err
	}
	j, err := newProduceJob(o.address, o.topic, o.partitions, o.connections, o.records, o.size, int16(o.acks), o.idempotent)
	if err != nil {
		return nil, err
	}
	res, err := run(plan{
		address: o.address, connections: o.connections, depth: o.depth,
		warmup: o.warmup, settle: o.settle, duration: o.duration, count: o.count,
	}, j)
	if err != nil {
		return nil, err
	}
	after, err := c.endOffsets(o.topic, o.partitions)
	if err != nil {
		return nil, err
	}
	// What was acknowledged is there, once.
	if after-before != res.AllRecords {
		res.fail(fmt.Errorf("%d records acknowledged, %d stored", res.AllRecords, after-before))
	}
	res.Verified = res.Errors == 0
	return res, nil
}
