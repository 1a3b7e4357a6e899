package main

import (
	"math"
	"math/bits"
	"strconv"
	"syscall"
	"time"
)

// histogram counts latencies in buckets that are at most 1/64 wide: percentiles are right to 1.6 %.
type histogram struct {
	counts [64 * 64]uint64
	total  uint64
	max    time.Duration
}

const subBits = 6

func bucketOf(d time.Duration) int {
	if d < 0 {
		d = 0
	}
	v := uint64(d)
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// bucketTop is the largest duration that falls into the bucket.
func bucketTop(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i)
	}
	shift := i>>subBits - 1
	low := uint64(i&(1<<subBits-1)|1<<subBits) << shift
	return time.Duration(low + 1<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.total++
	if d > h.max {
		h.max = d
	}
}

func (h *histogram) percentile(p float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(math.Ceil(p / 100 * float64(h.total)))
	if rank == 0 {
		rank = 1
	}
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if seen >= rank {
			return min(bucketTop(i), h.max)
		}
	}
	return h.max
}

// latencies is how a histogram is reported, in milliseconds.
type latencies struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

func millis(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

func (h *histogram) report() latencies {
	return latencies{
		P50:  millis(h.percentile(50)),
		P90:  millis(h.percentile(90)),
		P99:  millis(h.percentile(99)),
		P999: millis(h.percentile(99.9)),
		Max:  millis(h.max),
	}
}

// buckets says how many there are of each duration, in nanoseconds: those of several runs can be added up.
func (h *histogram) buckets() map[string]int64 {
	found := map[string]int64{}
	for i, n := range h.counts {
		if n > 0 {
			found[strconv.FormatInt(int64(bucketTop(i)), 10)] = int64(n)
		}
	}
	return found
}

// cpuSeconds is the processor time this process has used, user and system.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}
