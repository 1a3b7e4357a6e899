package main

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// broker answers Produce requests on a free port: answer(n) gives what follows the correlation id of the n-th
// request of a connection; nil closes the connection.
func broker(t *testing.T, answer func(n int) []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for n := 0; ; n++ {
					var head [4]byte
					if _, err := io.ReadFull(conn, head[:]); err != nil {
						return
					}
					frame := make([]byte, binary.BigEndian.Uint32(head[:]))
					if _, err := io.ReadFull(conn, frame); err != nil {
						return
					}
					body := answer(n)
					if body == nil {
						return
					}
					out := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
					out = append(append(out, frame[4:8]...), body...)
					// In two pieces: answers come as the network likes.
					conn.Write(out[:7])
					conn.Write(out[7:])
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func drive(t *testing.T, address string, records, size int, count int64) (*result, error) {
	t.Helper()
	j, err := newProduceJob(address, "topic", 1, 2, records, size, -1, false)
	if err != nil {
		t.Fatal(err)
	}
	return run(plan{address: address, connections: 2, depth: 4, count: count}, j)
}

func TestEngineCountsWhatIsAcknowledged(t *testing.T) {
	address := broker(t, func(n int) []byte { return produceAnswer(0, 0, int64(n)) })
	for _, c := range []struct{ records, size int }{{1, 100}, {1000, 1000}} {
		res, err := drive(t, address, c.records, c.size, 50)
		if err != nil {
			t.Fatal(err)
		}
		if res.Requests != 100 || res.AllRecords != int64(100*c.records) || res.Errors != 0 || res.Latency.Max <= 0 {
			t.Errorf("%+v", res)
		}
	}
}

func TestEngineCountsErrors(t *testing.T) {
	address := broker(t, func(n int) []byte {
		switch n {
		case 3:
			return produceAnswer(0, 6, -1)
		case 5:
			return produceAnswer(0, 0, 1) // an offset that went back
		}
		return produceAnswer(0, 0, int64(n))
	})
	res, err := drive(t, address, 1, 100, 10)
	if err != nil {
		t.Fatal(err)
	}
	if res.Requests != 16 || res.Errors != 4 || res.ErrorKinds["Produce: error 6"] != 2 {
		t.Errorf("%+v", res)
	}
}

func TestEngineSaysThatTheServerClosed(t *testing.T) {
	address := broker(t, func(n int) []byte {
		if n == 5 {
			return nil
		}
		return produceAnswer(0, 0, int64(n))
	})
	if _, err := drive(t, address, 1, 100, 10); err == nil {
		t.Error("a closed connection goes unnoticed")
	}
}

func TestEngineEndsByTheClock(t *testing.T) {
	address := broker(t, func(n int) []byte { return produceAnswer(0, 0, int64(n)) })
	j, err := newProduceJob(address, "topic", 1, 2, 1, 100, -1, false)
	if err != nil {
		t.Fatal(err)
	}
	res, err := run(plan{address: address, connections: 2, depth: 4, warmup: 20 * time.Millisecond, duration: 50 * time.Millisecond}, j)
	if err != nil || res.Requests == 0 || res.Requests >= res.AllRecords {
		t.Errorf("%+v %v", res, err)
	}
}

func TestEngineWarmsUpUntilTheRateStandsStill(t *testing.T) {
	address := broker(t, func(n int) []byte { return produceAnswer(0, 0, int64(n)) })
	j, err := newProduceJob(address, "topic", 1, 2, 1, 100, -1, false)
	if err != nil {
		t.Fatal(err)
	}
	// there are not yet ten seconds to look at when it has to begin
	most := 120 * time.Millisecond
	res, err := run(plan{address: address, connections: 2, depth: 4, warmup: 20 * time.Millisecond, settle: most, duration: 50 * time.Millisecond}, j)
	if err != nil || res.WarmupSeconds < 0.12 || res.Requests == 0 || res.Requests >= res.AllRecords {
		t.Errorf("%+v %v", res, err)
	}
}

func TestSettled(t *testing.T) {
	rising := []int64{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
	still := []int64{1, 2, 100, 101, 99, 100, 100, 98, 103, 100, 101, 100, 1}
	for _, c := range []struct {
		series  []int64
		seconds int
		settled bool
	}{
		{rising, 10, false}, {still, 9, false}, {still, 10, false}, {still, 12, true}, {still, 13, false}, {still, 20, false}, {nil, 0, false},
		{make([]int64, 10), 10, true}, {[]int64{100, 100, 100, 100, 100, 102, 102, 102, 102, 102}, 10, true}, {[]int64{100, 100, 100, 100, 100, 104, 104, 104, 104, 104}, 10, false},
	} {
		if settled(c.series, c.seconds) != c.settled {
			t.Errorf("%v at %d", c.series, c.seconds)
		}
	}
}

func TestUnknownLoad(t *testing.T) {
	if _, _, err := load("nothing", nil); err == nil || !strings.Contains(err.Error(), "produce") {
		t.Error(err)
	}
}
