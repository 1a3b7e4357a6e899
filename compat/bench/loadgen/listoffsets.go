package main

import (
	"fmt"
	"time"
)

// listOffsetsJob asks for the latest offset of one partition, as Spark does before each micro-batch.
type listOffsetsJob struct {
	topic      string
	partitions int
}

func (j *listOffsetsJob) frame(c *connection, s *slot) {
	s.frame = listOffsetsRequest(j.topic, []int32{int32(c.index % j.partitions)}, latest).finish()
}

func (j *listOffsetsJob) next(*connection, *slot) {}

func (j *listOffsetsJob) check(_ *connection, _ *slot, answer []byte) (int, int, error) {
	r := &reader{b: answer}
	r.tags()
	sum, err := parseListOffsets(r)
	if err == nil && sum != 0 {
		err = fmt.Errorf("ListOffsets: offset %d of an empty partition", sum)
	}
	return 0, 0, err
}

func listOffsets(address, topic string, partitions, connections, depth int, warmup, settle, duration time.Duration) (*result, error) {
	if _, err := prepareTopic(address, topic, partitions); err != nil {
		return nil, err
	}
	res, err := run(plan{
		address: address, connections: connections, depth: depth, warmup: warmup, settle: settle, duration: duration,
	}, &listOffsetsJob{topic, partitions})
	if err == nil {
		res.Verified = res.Errors == 0
	}
	return res, err
}
