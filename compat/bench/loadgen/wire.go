package main

import "encoding/binary"

// The few Kafka messages that the loads need, by hand: a frame is made once and patched, so the generator
// spends next to nothing on encoding and the server under test gets the machine.

const (
	apiProduce                = 0
	apiFetch                  = 1
	apiListOffsets            = 2
	apiMetadata               = 3
	apiFindCoordinator        = 10
	apiJoinGroup              = 11
	apiHeartbeat              = 12
	apiLeaveGroup             = 13
	apiSyncGroup              = 14
	apiAPIVersions            = 18
	apiCreateTopics           = 19
	apiInitProducerID         = 22
	apiAddPartitionsToTxn     = 24
	apiEndTxn                 = 26
	apiConsumerGroupHeartbeat = 68

	clientID = "loadgen"

	// Where the correlation id stands in a frame: after the size, the API key and the version.
	correlationAt = 8
)

// writer appends Kafka's primitive types (big-endian).
type writer struct{ b []byte }

func (w *writer) i8(v int8)    { w.b = append(w.b, byte(v)) }
func (w *writer) i16(v int16)  { w.b = binary.BigEndian.AppendUint16(w.b, uint16(v)) }
func (w *writer) i32(v int32)  { w.b = binary.BigEndian.AppendUint32(w.b, uint32(v)) }
func (w *writer) i64(v int64)  { w.b = binary.BigEndian.AppendUint64(w.b, uint64(v)) }
func (w *writer) raw(v []byte) { w.b = append(w.b, v...) }

func (w *writer) boolean(v bool) {
	if v {
		w.i8(1)
	} else {
		w.i8(0)
	}
}

func (w *writer) uvarint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) varint(v int64)   { w.b = binary.AppendVarint(w.b, v) }

// tags writes "no tagged fields".
func (w *writer) tags() { w.uvarint(0) }

// compact strings, arrays and bytes carry their length plus one; zero is null.
func (w *writer) compactString(v string) { w.uvarint(uint64(len(v)) + 1); w.b = append(w.b, v...) }
func (w *writer) compactNull()           { w.uvarint(0) }
func (w *writer) compactArray(n int)     { w.uvarint(uint64(n) + 1) }

func (w *writer) str(v string)   { w.i16(int16(len(v))); w.b = append(w.b, v...) }
func (w *writer) strNull()       { w.i16(-1) }
func (w *writer) bytes(v []byte) { w.i32(int32(len(v))); w.b = append(w.b, v...) }

// request starts a frame: size (filled in by finish), header, and tags if the version is flexible.
func request(key, version int16, flexible bool) *writer {
	w := &writer{}
	w.i32(0)
	w.i16(key)
	w.i16(version)
	w.i32(0)
	w.str(clientID)
	if flexible {
		w.tags()
	}
	return w
}

// finish sets the frame's size and returns it.
func (w *writer) finish() []byte {
	binary.BigEndian.PutUint32(w.b, uint32(len(w.b)-4))
	return w.b
}

// reader takes Kafka's primitive types from a message. Past the end it gives zeros and says so in bad.
type reader struct {
	b   []byte
	pos int
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b)-r.pos {
		r.bad = true
		r.pos = len(r.b)
		return nil
	}
	v := r.b[r.pos : r.pos+n]
	r.pos += n
	return v
}

func (r *reader) i8() int8 {
	if v := r.take(1); v != nil {
		return int8(v[0])
	}
	return 0
}

func (r *reader) i16() int16 {
	if v := r.take(2); v != nil {
		return int16(binary.BigEndian.Uint16(v))
	}
	return 0
}

func (r *reader) i32() int32 {
	if v := r.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (r *reader) i64() int64 {
	if v := r.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b[r.pos:])
	if n <= 0 {
		r.bad = true
		r.pos = len(r.b)
		return 0
	}
	r.pos += n
	return v
}

// tags skips tagged fields.
func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.uvarint()
		r.take(int(r.uvarint()))
	}
}

func (r *reader) compactBytes() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.take(int(n - 1))
}

func (r *reader) compactString() string { return string(r.compactBytes()) }

// compactArray gives the number of elements, 0 for null. It is never more than the bytes left.
func (r *reader) compactArray() int {
	n := r.uvarint()
	if n == 0 {
		return 0
	}
	return r.bounded(int(n - 1))
}

func (r *reader) array() int {
	n := int(r.i32())
	if n < 0 {
		return 0
	}
	return r.bounded(n)
}

func (r *reader) bounded(n int) int {
	if n < 0 || n > len(r.b)-r.pos {
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) str() string {
	n := r.i16()
	if n < 0 {
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) bytes() []byte {
	n := r.i32()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}
