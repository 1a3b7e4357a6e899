package main

import (
	"fmt"
	"math/rand"
	"time"
)

// sessionResult is what a record costs on its way through a fetch session of many partitions.
type sessionResult struct {
	Load       string    `json:"load"`
	Partitions int       `json:"partitions"`
	FirstMS    float64   `json:"first_fetch_ms"`
	Latency    latencies `json:"latency_ms"`
	Records    int64     `json:"records"`
	Errors     int64     `json:"errors"`
	Verified   bool      `json:"verified"`
}

// sessionFrame is Fetch v16 within a session; it names the partitions whose offsets are given (nil: none).
func sessionFrame(topic [16]byte, id, epoch int32, offsets map[int32]int64) []byte {
	w := request(apiFetch, 16, true)
	w.i32(5000)
	w.i32(1)
	w.i32(50 << 20)
	w.i8(0)
	w.i32(id)
	w.i32(epoch)
	if len(offsets) == 0 {
		w.compactArray(0)
	} else {
		w.compactArray(1)
		w.raw(topic[:])
		w.compactArray(len(offsets))
		for partition, offset := range offsets {
			w.i32(partition)
			w.i32(-1)
			w.i64(offset)
			w.i32(-1)
			w.i64(-1)
			w.i32(1 << 20)
			w.tags()
		}
		w.tags()
	}
	w.compactArray(0)
	w.compactString("")
	w.tags()
	return w.finish()
}

// parseSession gives the session's id and the partitions that were told of, with the bytes of each.
func parseSession(answer []byte) (id int32, sizes map[int32]int, err error) {
	r := reader{b: answer}
	r.tags()
	r.i32()
	if code := r.i16(); code != 0 {
		return 0, nil, fmt.Errorf("Fetch: error %d", code)
	}
	id = r.i32()
	sizes = map[int32]int{}
	for topics := r.compactArray(); topics > 0 && !r.bad; topics-- {
		r.take(16)
		for n := r.compactArray(); n > 0 && !r.bad; n-- {
			partition, code := r.i32(), r.i16()
			if code != 0 {
				return 0, nil, fmt.Errorf("Fetch, partition %d: error %d", partition, code)
			}
			r.take(24)
			for m := r.compactArray(); m > 0 && !r.bad; m-- {
				r.take(16)
				r.tags()
			}
			r.i32()
			sizes[partition] = len(r.compactBytes())
			r.tags()
		}
		r.tags()
	}
	if r.bad {
		return 0, nil, fmt.Errorf("Fetch: the answer is cut short")
	}
	return id, sizes, nil
}

// fetchSession opens a session over all partitions, and then sends one record after the other to partitions drawn by
// lot: the latency is from writing the Produce to the answer of the fetch that waited for it.
func fetchSession(address, name string, partitions int, warmup, duration time.Duration) (*sessionResult, error) {
	topic, err := prepareTopic(address, name, partitions)
	if err != nil {
		return nil, err
	}
	out, err := openSocket(address)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	in, err := openSocket(address)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	all := map[int32]int64{}
	for p := range partitions {
		all[int32(p)] = 0
	}
	exchange := func(frame []byte) (int32, map[int32]int, error) {
		if _, err := in.Write(frame); err != nil {
			return 0, nil, err
		}
		answer, err := in.readFrame()
		if err != nil {
			return 0, nil, err
		}
		return parseSession(answer[4:])
	}
	begin := time.Now()
	id, told, err := exchange(sessionFrame(topic.id, 0, 0, all))
	if err != nil {
		return nil, err
	}
	res := &sessionResult{Partitions: partitions, FirstMS: millis(time.Since(begin))}
	if id == 0 || len(told) != partitions {
		return nil, fmt.Errorf("session %d with %d partitions told", id, len(told))
	}
	var latency histogram
	draw := rand.New(rand.NewSource(1))
	offsets := make([]int64, partitions)
	moved := map[int32]int64{}
	batch := buildBatch(1, 100, time.Now())
	start := time.Now()
	for epoch := int32(1); time.Since(start) < warmup+duration; epoch++ {
		if _, err := in.Write(sessionFrame(topic.id, id, epoch, moved)); err != nil {
			return nil, err
		}
		partition := int32(draw.Intn(partitions))
		frame, _ := produceFrame(name, partition, -1, batch)
		sent := time.Now()
		if _, err := out.Write(frame); err != nil {
			return nil, err
		}
		answer, err := in.readFrame()
		if err != nil {
			return nil, err
		}
		took := time.Since(sent)
		_, told, err := parseSession(answer[4:])
		if err != nil {
			return nil, err
		}
		if len(told) != 1 || told[partition] == 0 {
			return nil, fmt.Errorf("a record for partition %d: the fetch told of %v", partition, told)
		}
		produced, err := out.readFrame()
		if err != nil {
			return nil, err
		}
		if _, code, base, err := parseProduce(produced[4:]); err != nil || code != 0 || base != offsets[partition] {
			return nil, fmt.Errorf("Produce: error %d, base offset %d, %v", code, base, err)
		}
		offsets[partition]++
		moved = map[int32]int64{partition: offsets[partition]}
		if time.Since(start) > warmup {
			latency.add(took)
			res.Records++
		}
	}
	res.Latency = latency.report()
	res.Verified = true
	return res, nil
}
