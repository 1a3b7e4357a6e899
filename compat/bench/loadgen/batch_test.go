package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"
)

func TestBatchIsWellFormed(t *testing.T) {
	b := buildBatch(3, 100, time.UnixMilli(1700000000000))
	if got := int(binary.BigEndian.Uint32(b[batchLengthAt:])) + 12; got != len(b) {
		t.Errorf("batch length says %d of %d bytes", got, len(b))
	}
	if b[batchMagicAt] != 2 || binary.BigEndian.Uint32(b[batchCountAt:]) != 3 || binary.BigEndian.Uint32(b[batchLastDeltaAt:]) != 2 {
		t.Errorf("header: % x", b[:batchHeader])
	}
	// Each record's length is that of its bytes, and they fill the batch.
	r := reader{b: b, pos: batchHeader}
	for i := 0; i < 3; i++ {
		length, n := binary.Varint(b[r.pos:])
		r.pos += n
		if record := r.take(int(length)); r.bad || record[2] != byte(2*i) {
			t.Fatalf("record %d: % x", i, record)
		}
	}
	if r.pos != len(b) {
		t.Errorf("%d bytes behind the records", len(b)-r.pos)
	}
}

func TestCRCFollowsTheSequence(t *testing.T) {
	b := buildBatch(1, 10, time.Now())
	if !validCRC(b) {
		t.Fatal("wrong CRC in a new batch")
	}
	before := binary.BigEndian.Uint32(b[batchCRCAt:])
	setProducer(b, 7, 1, 42)
	if binary.BigEndian.Uint32(b[batchCRCAt:]) == before || !validCRC(b) {
		t.Error("the CRC does not cover the producer's fields")
	}
	b[batchSequenceAt]++
	if validCRC(b) {
		t.Error("a changed byte goes unnoticed")
	}
}

func TestWalkStopsAtACutBatch(t *testing.T) {
	one, two := buildBatch(2, 10, time.Now()), buildBatch(3, 10, time.Now())
	binary.BigEndian.PutUint64(one, 100)
	binary.BigEndian.PutUint64(two, 102)
	both := append(append([]byte{}, one...), two...)
	for _, c := range []struct {
		bytes   int
		next    int64
		batches int
		ok      bool
	}{{len(both), 105, 2, true}, {len(both) - 1, 102, 1, true}, {len(one), 102, 1, true}, {len(one) - 1, 0, 0, false}, {0, 0, 0, false}} {
		base, next, batches, ok := walkBatches(both[:c.bytes])
		if next != c.next || batches != c.batches || ok != c.ok || ok && base != 100 {
			t.Errorf("%d bytes: base %d, next %d, %d batches, %v", c.bytes, base, next, batches, ok)
		}
	}
}

// The places and the polynomial spelled out again: a slip in the constants would otherwise agree with itself.
func TestCRCIsThatOfTheFormat(t *testing.T) {
	table := crc32.MakeTable(0x82f63b78)
	if got := crc32.Checksum([]byte("123456789"), table); got != 0xe3069283 {
		t.Fatalf("not CRC-32C: %08x", got)
	}
	b := buildBatch(1, 10, time.Now())
	setProducer(b, 0x0102030405060708, 0x090a, 0x0b0c0d0e)
	if got := binary.BigEndian.Uint32(b[17:21]); got != crc32.Checksum(b[21:], table) {
		t.Errorf("CRC %08x", got)
	}
	if want := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 0, 0, 1}; !bytes.Equal(b[43:61], want) {
		t.Errorf("producer and count: % x", b[43:61])
	}
}

func TestSequenceWraps(t *testing.T) {
	if got := nextSequence(2147483647, 1); got != 0 {
		t.Errorf("after 2^31-1 comes %d", got)
	}
	if got := nextSequence(2147483646, 4); got != 2 {
		t.Errorf("four after 2^31-2 is %d", got)
	}
}
