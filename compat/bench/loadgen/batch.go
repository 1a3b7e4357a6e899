package main

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// Offsets in a record batch, version 2.
const (
	batchLengthAt        = 8
	batchMagicAt         = 16
	batchCRCAt           = 17
	batchAttributesAt    = 21 // the CRC covers everything from here
	batchLastDeltaAt     = 23
	batchProducerIDAt    = 43
	batchProducerEpochAt = 51
	batchSequenceAt      = 53
	batchCountAt         = 57
	batchHeader          = 61
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// buildBatch makes an uncompressed batch of `records` records with values of `size` bytes, no keys, no producer.
func buildBatch(records, size int, now time.Time) []byte {
	w := &writer{b: make([]byte, batchHeader, batchHeader+records*(size+16))}
	value := make([]byte, size)
	state := uint32(2463534242)
	for i := range value {
		// Xorshift: content that does not compress, the same in each run.
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		value[i] = byte(state)
	}
	record := &writer{}
	for i := 0; i < records; i++ {
		record.b = record.b[:0]
		record.i8(0)            // attributes
		record.varint(0)        // timestamp delta
		record.varint(int64(i)) // offset delta
		record.varint(-1)       // no key
		record.varint(int64(size))
		record.raw(value)
		record.varint(0) // headers
		w.varint(int64(len(record.b)))
		w.raw(record.b)
	}
	b := w.b
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], ^uint32(0)) // leader epoch unknown
	b[batchMagicAt] = 2
	binary.BigEndian.PutUint32(b[batchLastDeltaAt:], uint32(records-1))
	stamp := uint64(now.UnixMilli())
	binary.BigEndian.PutUint64(b[27:], stamp)
	binary.BigEndian.PutUint64(b[35:], stamp)
	binary.BigEndian.PutUint32(b[batchCountAt:], uint32(records))
	setProducer(b, -1, -1, -1)
	return b
}

// setProducer writes the idempotent producer's fields and the CRC that covers them.
func setProducer(batch []byte, id int64, epoch int16, sequence int32) {
	binary.BigEndian.PutUint64(batch[batchProducerIDAt:], uint64(id))
	binary.BigEndian.PutUint16(batch[batchProducerEpochAt:], uint16(epoch))
	binary.BigEndian.PutUint32(batch[batchSequenceAt:], uint32(sequence))
	seal(batch)
}

// seal computes the CRC-32C.
func seal(batch []byte) {
	binary.BigEndian.PutUint32(batch[batchCRCAt:], crc32.Checksum(batch[batchAttributesAt:], castagnoli))
}

// walkBatches gives the first batch's base offset, the offset after the last whole batch and how many whole
// batches there are. ok is false if there is none.
func walkBatches(records []byte) (base, next int64, batches int, ok bool) {
	for len(records) >= batchHeader {
		size := int(binary.BigEndian.Uint32(records[batchLengthAt:])) + 12
		if size < batchHeader || size > len(records) {
			break // the last one may be cut off
		}
		offset := int64(binary.BigEndian.Uint64(records))
		if !ok {
			base, ok = offset, true
		}
		next = offset + int64(binary.BigEndian.Uint32(records[batchLastDeltaAt:])) + 1
		batches++
		records = records[size:]
	}
	return base, next, batches, ok
}

// validCRC says whether the first batch's checksum is right.
func validCRC(records []byte) bool {
	if len(records) < batchHeader {
		return false
	}
	size := int(binary.BigEndian.Uint32(records[batchLengthAt:])) + 12
	if size < batchHeader || size > len(records) {
		return false
	}
	return binary.BigEndian.Uint32(records[batchCRCAt:]) == crc32.Checksum(records[batchAttributesAt:size], castagnoli)
}

// nextSequence adds to a sequence number, which wraps at 2^31-1 to 0.
func nextSequence(sequence int32, records int) int32 {
	return int32((int64(sequence) + int64(records)) & 0x7fffffff)
}
