package main

import (
	"testing"
	"time"
)

func TestBucketsAreNarrowAndInOrder(t *testing.T) {
	last := -1
	for d := time.Duration(1); d < time.Hour; d += d/7 + 1 {
		i := bucketOf(d)
		if i < last {
			t.Fatalf("%v falls below its predecessor", d)
		}
		last = i
		if top := bucketTop(i); top < d || top > d+d/64 {
			t.Fatalf("%v is reported as %v", d, top)
		}
	}
}

func TestPercentiles(t *testing.T) {
	h := &histogram{}
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	for p, want := range map[float64]time.Duration{50: 500, 99: 990, 99.9: 999, 100: 1000} {
		want *= time.Microsecond
		if got := h.percentile(p); got < want || got > want+want/64 {
			t.Errorf("p%v is %v, expected %v", p, got, want)
		}
	}
	if (&histogram{}).percentile(99) != 0 {
		t.Error("a percentile of nothing")
	}
}

func TestBucketsHaveAllThereIs(t *testing.T) {
	h := &histogram{}
	for _, d := range []time.Duration{3, 3, time.Millisecond} {
		h.add(d)
	}
	found := h.buckets()
	if len(found) != 2 || found["3"] != 2 {
		t.Fatalf("%v", found)
	}
	for name, n := range found {
		if name != "3" && n != 1 {
			t.Errorf("%v of %v", n, name)
		}
	}
}
