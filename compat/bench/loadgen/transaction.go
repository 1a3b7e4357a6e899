package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A transactional producer of the old protocol, one request at a time.

const (
	errCoordinatorLoading     = 14
	errCoordinatorUnavailable = 15
	errNotCoordinator         = 16
	errConcurrentTransactions = 51

	transactionalAttribute = 1 << 4
)

// transactor is a transactional producer on its own connection.
type transactor struct {
	client   *client
	id       string
	producer producer
	// Of each partition.
	sequences map[int32]int32
}

// newTransactor connects and gets a producer id; it waits until there is a coordinator.
func newTransactor(address, id string) (*transactor, error) {
	c, err := connect(address)
	if err != nil {
		return nil, err
	}
	t := &transactor{client: c, id: id, sequences: map[int32]int32{}}
	for attempt := 0; ; attempt++ {
		code, err := t.begin()
		if err == nil && code == 0 {
			return t, nil
		}
		if err == nil && !again(code) {
			err = fmt.Errorf("InitProducerId: error %d", code)
		}
		if err != nil || attempt == 600 {
			c.close()
			return nil, errors.Join(err, fmt.Errorf("no coordinator: error %d", code))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func again(code int16) bool {
	switch code {
	case errCoordinatorLoading, errCoordinatorUnavailable, errNotCoordinator, errConcurrentTransactions:
		return true
	}
	return false
}

func (t *transactor) begin() (int16, error) {
	// Asking for it makes Kafka create its topic of transactions.
	w := request(apiFindCoordinator, 2, false)
	w.str(t.id)
	w.i8(1)
	r, err := t.client.call(w, false, 30*time.Second)
	if err != nil {
		return 0, fmt.Errorf("FindCoordinator: %w", err)
	}
	r.i32()
	if code := r.i16(); code != 0 {
		return code, nil
	}
	w = request(apiInitProducerID, 4, true)
	w.compactString(t.id)
	w.i32(900_000)
	w.i64(-1)
	w.i16(-1)
	w.tags()
	if r, err = t.client.call(w, true, 30*time.Second); err != nil {
		return 0, fmt.Errorf("InitProducerId: %w", err)
	}
	r.i32()
	code := r.i16()
	t.producer = producer{id: r.i64(), epoch: r.i16()}
	if r.bad {
		return 0, fmt.Errorf("InitProducerId: the answer is cut short")
	}
	return code, nil
}

// add is AddPartitionsToTxn; while the markers of the last transaction are written, Kafka wants it again.
func (t *transactor) add(topic string, partitions []int32) error {
	for {
		w := request(apiAddPartitionsToTxn, 3, true)
		w.compactString(t.id)
		w.i64(t.producer.id)
		w.i16(t.producer.epoch)
		w.compactArray(1)
		w.compactString(topic)
		w.compactArray(len(partitions))
		for _, partition := range partitions {
			w.i32(partition)
		}
		w.tags()
		w.tags()
		r, err := t.client.call(w, true, time.Minute)
		if err != nil {
			return fmt.Errorf("AddPartitionsToTxn: %w", err)
		}
		r.i32()
		var code int16
		for n := r.compactArray(); n > 0; n-- {
			r.compactBytes()
			for m := r.compactArray(); m > 0; m-- {
				r.i32()
				if each := r.i16(); each != 0 {
					code = each
				}
				r.tags()
			}
			r.tags()
		}
		switch {
		case r.bad:
			return fmt.Errorf("AddPartitionsToTxn: the answer is cut short")
		case code == 0:
			return nil
		case !again(code):
			return fmt.Errorf("AddPartitionsToTxn: error %d", code)
		}
		time.Sleep(time.Millisecond)
	}
}

// produce writes a batch to each of these partitions, in one request.
func (t *transactor) produce(topic string, partitions []int32, batch []byte) error {
	records := int(binary.BigEndian.Uint32(batch[batchCountAt:]))
	w := request(apiProduce, 11, true)
	w.compactString(t.id)
	w.i16(-1)
	w.i32(30000)
	w.compactArray(1)
	w.compactString(topic)
	w.compactArray(len(partitions))
	for _, partition := range partitions {
		sequence := t.sequences[partition]
		t.sequences[partition] = nextSequence(sequence, records)
		binary.BigEndian.PutUint16(batch[batchAttributesAt:], transactionalAttribute)
		setProducer(batch, t.producer.id, t.producer.epoch, sequence)
		w.i32(partition)
		w.uvarint(uint64(len(batch)) + 1)
		w.raw(batch)
		w.tags()
	}
	w.tags()
	w.tags()
	r, err := t.client.call(w, true, time.Minute)
	if err != nil {
		return fmt.Errorf("Produce: %w", err)
	}
	for n := r.compactArray(); n > 0 && !r.bad; n-- {
		r.compactBytes()
		for m := r.compactArray(); m > 0 && !r.bad; m-- {
			partition, code := r.i32(), r.i16()
			if code != 0 {
				return fmt.Errorf("Produce: error %d of partition %d", code, partition)
			}
			r.take(24) // base offset, time of append, start of the log
			for k := r.compactArray(); k > 0 && !r.bad; k-- {
				r.i32()
				r.compactBytes()
				r.tags()
			}
			r.compactBytes()
			r.tags()
		}
		r.tags()
	}
	if r.bad {
		return fmt.Errorf("Produce: the answer is cut short")
	}
	return nil
}

// end is EndTxn.
func (t *transactor) end(commit bool) error {
	for {
		w := request(apiEndTxn, 3, true)
		w.compactString(t.id)
		w.i64(t.producer.id)
		w.i16(t.producer.epoch)
		w.boolean(commit)
		w.tags()
		r, err := t.client.call(w, true, 2*time.Minute)
		if err != nil {
			return fmt.Errorf("EndTxn: %w", err)
		}
		r.i32()
		code := r.i16()
		switch {
		case code == 0:
			return nil
		case !again(code):
			return fmt.Errorf("EndTxn: error %d", code)
		}
		time.Sleep(time.Millisecond)
	}
}

// once is a whole transaction with one batch in each of some partitions.
func (t *transactor) once(topic string, partitions []int32, batch []byte, commit bool) error {
	if err := t.add(topic, partitions); err != nil {
		return err
	}
	if err := t.produce(topic, partitions, batch); err != nil {
		return err
	}
	return t.end(commit)
}
