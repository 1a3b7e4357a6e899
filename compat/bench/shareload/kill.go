package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// confirmed is what "confirm" leaves for "again": the offsets of each partition whose acceptance was answered.
type confirmed struct {
	Offsets map[int32][]int64 `json:"offsets"`
}

type confirmFigures struct {
	Confirmed int `json:"confirmed"`
}

// confirm accepts poll after poll, waits for the answers each time, and kills the process as soon as the answer has come
// with which half of the records are confirmed.
func confirm(o *options) (any, error) {
	if _, err := prepare(o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.limit, errors.New("not confirmed in time"))
	defer cancel()
	refused := make(chan error, 1)
	client, err := shareClient(o, o.group, kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
		if err := results.Error(); err != nil {
			select {
			case refused <- err:
			default:
			}
		}
	}))
	if err != nil {
		return nil, err
	}
	known, count := confirmed{Offsets: map[int32][]int64{}}, 0
	for count < o.records/2 {
		fetches := client.PollFetches(ctx)
		if errs := fetches.Errors(); len(errs) > 0 {
			return nil, errs[0].Err
		}
		fetches.EachRecord(func(record *kgo.Record) { record.Ack(kgo.AckAccept) })
		if err := client.FlushAcks(ctx); err != nil {
			return nil, err
		}
		select {
		case err := <-refused:
			return nil, fmt.Errorf("an acknowledgement was refused: %w", err)
		default:
		}
		if count+fetches.NumRecords() >= o.records/2 {
			if err := syscall.Kill(o.pid, syscall.SIGKILL); err != nil {
				return nil, err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			known.Offsets[record.Partition] = append(known.Offsets[record.Partition], record.Offset)
			count++
		})
	}
	text, err := json.Marshal(known)
	if err != nil {
		return nil, err
	}
	return &confirmFigures{Confirmed: count}, os.WriteFile(o.file, text, 0o644) // no goodbye to a dead server
}

type againFigures struct {
	Lost        int     `json:"lost"`
	LostPercent float64 `json:"lost_percent"`
	Confirmed   int     `json:"confirmed"`
}

// again reads everything that comes after the restart: each record that was not confirmed must, those that were should not.
func again(o *options) (any, error) {
	text, err := os.ReadFile(o.file)
	if err != nil {
		return nil, err
	}
	var known confirmed
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, err
	}
	type place struct {
		partition int32
		offset    int64
	}
	was, came := map[place]bool{}, map[place]bool{}
	for partition, offsets := range known.Offsets {
		for _, offset := range offsets {
			was[place{partition, offset}] = true
		}
	}
	client, err := shareClient(o, o.group)
	if err != nil {
		return nil, err
	}
	defer client.CloseAllowingRebalance()
	missing, lost := o.records-len(was), 0
	deadline := time.Now().Add(o.limit)
	// and a while longer, for confirmed ones that may come last
	var quiet time.Time
	for quiet.IsZero() || time.Now().Before(quiet) {
		until := deadline
		if missing == 0 {
			if quiet.IsZero() {
				quiet = time.Now().Add(3 * time.Second)
			}
			until = quiet
		}
		limit, cancel := context.WithDeadline(context.Background(), until)
		fetches := client.PollFetches(limit)
		cancel()
		if errs := fetches.Errors(); len(errs) > 0 && !errors.Is(errs[0].Err, context.DeadlineExceeded) {
			return nil, errs[0].Err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			record.Ack(kgo.AckAccept)
			at := place{record.Partition, record.Offset}
			if came[at] {
				return
			}
			came[at] = true
			if was[at] {
				lost++
			} else {
				missing--
			}
		})
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d records that nobody had accepted did not come", missing)
		}
	}
	return &againFigures{Lost: lost, LostPercent: round(100*float64(lost)/float64(max(len(was), 1)), 3), Confirmed: len(was)}, nil
}
