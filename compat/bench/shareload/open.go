package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	firstWindow  = 64 // deliveries of a lane that nobody has committed to yet
	windowGrowth = 8  // by a commit of all of a full window
	// with no record for so long the lanes are full, or there is none left
	quiet = 500 * time.Millisecond
	// and so long where nobody commits
	patience = 10 * time.Second
	// before memory is looked at: what is on its way is done
	settles = 3 * time.Second
)

type openFigures struct {
	Open      int     `json:"open"`
	Before    float64 `json:"before_mib"`    // nothing is open, all records are in the topic
	Resident  float64 `json:"resident_mib"`  // what the server has more with all of them open
	Anonymous float64 `json:"anonymous_mib"` // of that, what no file stands behind
	Kept      float64 `json:"kept_mib"`      // what it has more than before when all are committed
}

// open has as many deliveries open as -records says, in all lanes together. Windows grow by commits: first as many others
// are read and committed as it takes until the lanes may have so many open. These also warm everything up.
func open(o *options) (any, error) {
	each := (o.records + o.lanes - 1) / o.lanes
	warm := *o
	warm.records = 0
	for window := firstWindow; window < each; window *= windowGrowth {
		warm.records += o.lanes * window
	}
	// the last commit is of no full window and makes it twice as large as what it commits
	warm.records += o.lanes * each * 2 / 3
	if _, err := prepare(&warm); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), o.limit, errors.New("not read in time"))
	defer cancel()
	if err := read(ctx, o, warm.records, true, nil); err != nil {
		return nil, fmt.Errorf("making room: %w", err)
	}
	if err := fill(o); err != nil {
		return nil, err
	}
	time.Sleep(settles)
	before, err := memoryOf(o.pid)
	if err != nil {
		return nil, err
	}
	figures := &openFigures{Open: o.records, Before: round(before.resident, 1)}
	err = read(ctx, o, o.records, false, func(client *kgo.Client) error {
		time.Sleep(settles)
		opened, err := memoryOf(o.pid)
		if err != nil {
			return err
		}
		figures.Resident = round(opened.resident-before.resident, 1)
		figures.Anonymous = round(opened.anonymous-before.anonymous, 1)
		return client.CommitUncommittedOffsets(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("with %d open: %w", o.records, err)
	}
	time.Sleep(settles)
	after, err := memoryOf(o.pid)
	figures.Kept = round(after.resident-before.resident, 1)
	return figures, err
}

// read reads so many records as the one member of the group. It commits each time when nothing comes, or not at all.
// then is called when it has them all and is still there.
func read(ctx context.Context, o *options, records int, commits bool, then func(*kgo.Client) error) error {
	client, err := laneClient(o)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	count, last := 0, time.Now()
	for began := false; count < records; {
		limit, cancel := context.WithTimeout(ctx, quiet)
		fetches := client.PollFetches(limit)
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d records: %w", count, records, context.Cause(ctx))
		}
		found := fetches.NumRecords()
		count += found
		began = began || found > 0
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if found > 0 {
			last = time.Now()
		}
		if found > 0 || !began || !commits && time.Since(last) < patience {
			continue
		}
		if !commits {
			return fmt.Errorf("%d of %d records came: the windows are full", count, records)
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	if commits {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	if then == nil {
		return nil
	}
	return then(client)
}

// memory is of a process, in MiB.
type memory struct{ resident, anonymous float64 }

func memoryOf(pid int) (found memory, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch name {
		case "VmRSS":
			found.resident = kilobytes / 1024
		case "RssAnon":
			found.anonymous = kilobytes / 1024
		}
	}
	return found, err
}
