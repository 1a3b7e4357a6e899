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

// topicPartitions is how many partitions one topic has at most: Kafka makes no more than some 10,000 at once.
const topicPartitions = 5000

// place is one of all partitions of a session: they are numbered through its topics.
type place int

func (p place) topic() int       { return int(p) / topicPartitions }
func (p place) partition() int32 { return int32(p) % topicPartitions }

// sessionFrame is Fetch v16 within a session; it names the partitions whose offsets are given (nil: none).
func sessionFrame(topics []topicInfo, id, epoch, maxWait int32, offsets map[place]int64) []byte {
	by := map[int][]place{}
	for p := range offsets {
		by[p.topic()] = append(by[p.topic()], p)
	}
	w := request(apiFetch, 16, true)
	w.i32(maxWait)
	w.i32(1)
	w.i32(50 << 20)
	w.i8(0)
	w.i32(id)
	w.i32(epoch)
	w.compactArray(len(by))
	for topic, places := range by {
		w.raw(topics[topic].id[:])
		w.compactArray(len(places))
		for _, p := range places {
			w.i32(p.partition())
			w.i32(-1)
			w.i64(offsets[p])
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
func parseSession(topics []topicInfo, answer []byte) (id int32, sizes map[place]int, err error) {
	r := reader{b: answer}
	r.tags()
	r.i32()
	if code := r.i16(); code != 0 {
		return 0, nil, fmt.Errorf("Fetch: error %d", code)
	}
	id = r.i32()
	sizes = map[place]int{}
	for count := r.compactArray(); count > 0 && !r.bad; count-- {
		name, first := r.take(16), -1
		for i := range topics {
			if string(name) == string(topics[i].id[:]) {
				first = i * topicPartitions
			}
		}
		if first < 0 {
			return 0, nil, fmt.Errorf("Fetch: topic %x was not asked for", name)
		}
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
			sizes[place(first)+place(partition)] = len(r.compactBytes())
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
	var topics []topicInfo
	for first := 0; first < partitions; first += topicPartitions {
		topic, err := prepareTopic(address, fmt.Sprintf("%s-%d", name, len(topics)), min(topicPartitions, partitions-first))
		if err != nil {
			return nil, err
		}
		topics = append(topics, topic)
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
	all := map[place]int64{}
	for p := range partitions {
		all[place(p)] = 0
	}
	begin := time.Now()
	if _, err := in.Write(sessionFrame(topics, 0, 0, 0, all)); err != nil {
		return nil, err
	}
	answer, err := in.readFrame()
	if err != nil {
		return nil, err
	}
	id, told, err := parseSession(topics, answer[4:])
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
	moved := map[place]int64{}
	batch := buildBatch(1, 100, time.Now())
	start := time.Now()
	for epoch := int32(1); time.Since(start) < warmup+duration; epoch++ {
		if _, err := in.Write(sessionFrame(topics, id, epoch, 5000, moved)); err != nil {
			return nil, err
		}
		chosen := place(draw.Intn(partitions))
		frame, _ := produceFrame(fmt.Sprintf("%s-%d", name, chosen.topic()), chosen.partition(), -1, batch)
		sent := time.Now()
		if _, err := out.Write(frame); err != nil {
			return nil, err
		}
		answer, err := in.readFrame()
		if err != nil {
			return nil, err
		}
		took := time.Since(sent)
		_, told, err := parseSession(topics, answer[4:])
		if err != nil {
			return nil, err
		}
		if len(told) != 1 || told[chosen] == 0 {
			return nil, fmt.Errorf("a record for partition %d: the fetch told of %v", chosen, told)
		}
		produced, err := out.readFrame()
		if err != nil {
			return nil, err
		}
		if _, code, base, err := parseProduce(produced[4:]); err != nil || code != 0 || base != offsets[chosen] {
			return nil, fmt.Errorf("Produce: error %d, base offset %d, %v", code, base, err)
		}
		offsets[chosen]++
		moved = map[place]int64{chosen: offsets[chosen]}
		if time.Since(start) > warmup {
			latency.add(took)
			res.Records++
		}
	}
	res.Latency = latency.report()
	res.Verified = true
	return res, nil
}
