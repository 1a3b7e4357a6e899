package main

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

func TestRequestHeader(t *testing.T) {
	got := request(apiAPIVersions, 0, false).finish()
	want := []byte{0, 0, 0, 17, 0, 18, 0, 0, 0, 0, 0, 0, 0, 7, 'l', 'o', 'a', 'd', 'g', 'e', 'n'}
	if !bytes.Equal(got, want) {
		t.Errorf("% x", got)
	}
	if flexible := request(apiMetadata, 12, true).finish(); len(flexible) != len(want)+1 || flexible[len(flexible)-1] != 0 {
		t.Errorf("flexible: % x", flexible)
	}
}

func TestProduceFrame(t *testing.T) {
	batch := buildBatch(1, 100, time.Now())
	frame, at := produceFrame("topic", 5, -1, batch)
	if int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
		t.Error("wrong size")
	}
	if !bytes.Equal(frame[at:at+len(batch)], batch) {
		t.Error("the batch is not where it should be")
	}
	// Read it back as a broker would.
	r := reader{b: frame, pos: 21}
	r.tags()
	if r.compactBytes() != nil || r.i16() != -1 || r.i32() != 30000 || r.compactArray() != 1 ||
		r.compactString() != "topic" || r.compactArray() != 1 || r.i32() != 5 || len(r.compactBytes()) != len(batch) {
		t.Error("wrong fields")
	}
	r.tags()
	r.tags()
	r.tags()
	if r.bad || r.pos != len(frame) {
		t.Errorf("%d of %d bytes read", r.pos, len(frame))
	}
}

func TestFetchFrame(t *testing.T) {
	frame, at := fetchFrame([16]byte{1, 2, 3}, 4, 500, 1, 1000)
	binary.BigEndian.PutUint64(frame[at:], 77)
	r := reader{b: frame, pos: 21}
	r.tags()
	if r.i32() != 500 || r.i32() != 1 || r.i32() != 1000 || r.i8() != 0 || r.i32() != 0 || r.i32() != -1 ||
		r.compactArray() != 1 || r.take(16)[2] != 3 || r.compactArray() != 1 || r.i32() != 4 || r.i32() != -1 ||
		r.i64() != 77 || r.i32() != -1 || r.i64() != -1 || r.i32() != 1000 {
		t.Error("wrong fields")
	}
	r.tags()
	r.tags()
	if r.compactArray() != 0 || r.compactString() != "" {
		t.Error("wrong end")
	}
	r.tags()
	if r.bad || r.pos != len(frame) {
		t.Errorf("%d of %d bytes read", r.pos, len(frame))
	}
}

// produceAnswer is what a broker sends after the correlation id.
func produceAnswer(partition int32, code int16, base int64) []byte {
	w := &writer{}
	w.tags()
	w.compactArray(1)
	w.compactString("topic")
	w.compactArray(1)
	w.i32(partition)
	w.i16(code)
	w.i64(base)
	w.i64(-1)
	w.i64(0)
	w.compactArray(0)
	w.compactNull()
	w.tags()
	w.tags()
	w.i32(0)
	w.tags()
	return w.b
}

func TestParseProduce(t *testing.T) {
	partition, code, base, err := parseProduce(produceAnswer(3, 6, 99))
	if partition != 3 || code != 6 || base != 99 || err != nil {
		t.Error(partition, code, base, err)
	}
	if _, _, _, err := parseProduce(produceAnswer(3, 6, 99)[:12]); err == nil {
		t.Error("an answer cut short goes unnoticed")
	}
}

func TestParseFetch(t *testing.T) {
	batch := buildBatch(1, 10, time.Now())
	w := &writer{}
	w.tags()
	w.i32(0)
	w.i16(0)
	w.i32(0)
	w.compactArray(1)
	w.raw(make([]byte, 16))
	w.compactArray(1)
	w.i32(0)
	w.i16(0)
	w.i64(10)
	w.i64(10)
	w.i64(0)
	w.compactNull()
	w.i32(-1)
	w.uvarint(uint64(len(batch)) + 1)
	w.raw(batch)
	w.tags()
	w.tags()
	w.tags()
	code, high, records, err := parseFetch(w.b)
	if code != 0 || high != 10 || !bytes.Equal(records, batch) || err != nil {
		t.Error(code, high, len(records), err)
	}
	if _, _, _, err := parseFetch(w.b[:len(w.b)-10]); err == nil {
		t.Error("an answer cut short goes unnoticed")
	}
}

func TestReaderIsBounded(t *testing.T) {
	r := reader{b: []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 1}}
	if n := r.compactArray(); n != 0 || !r.bad {
		t.Errorf("an array of 4 billion: %d, bad %v", n, r.bad)
	}
}
