package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// dial opens a blocking socket without delay (Nagle off), as all Kafka clients do.
func dial(address string) (int, error) {
	if isSecure() {
		return relayed(address)
	}
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return 0, err
	}
	family := syscall.AF_INET
	var to syscall.Sockaddr
	if ip := tcp.IP.To4(); ip != nil {
		to = &syscall.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(ip)}
	} else {
		family = syscall.AF_INET6
		to = &syscall.SockaddrInet6{Port: tcp.Port, Addr: [16]byte(tcp.IP.To16())}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		syscall.Close(fd)
		return 0, err
	}
	if err := syscall.Connect(fd, to); err != nil {
		syscall.Close(fd)
		return 0, fmt.Errorf("connect %s: %w", address, err)
	}
	return fd, nil
}

// client is a plain connection, one request at a time, for what surrounds the loads.
type client struct {
	conn        net.Conn
	correlation uint32
	size        int // of the last answer, in bytes
}

func connect(address string) (*client, error) {
	conn, err := open(address)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn}, nil
}

func (c *client) close() { c.conn.Close() }

// call sends a frame and gives the answer's body.
func (c *client) call(w *writer, flexible bool, timeout time.Duration) (*reader, error) {
	frame := w.finish()
	c.correlation++
	binary.BigEndian.PutUint32(frame[correlationAt:], c.correlation)
	if err := c.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(frame); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	c.size = int(binary.BigEndian.Uint32(head[:]))
	if c.size < 4 || c.size > 1<<30 {
		return nil, fmt.Errorf("an answer of %d bytes", c.size)
	}
	body := make([]byte, c.size)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	r := &reader{b: body}
	if got := uint32(r.i32()); got != c.correlation {
		return nil, fmt.Errorf("correlation id %d, expected %d", got, c.correlation)
	}
	if flexible {
		r.tags()
	}
	return r, nil
}

type newTopic struct {
	name       string
	partitions int
}

// createTopics creates topics with one replica. One that exists is an error: a load needs a fresh topic, and an
// old one would mean that this is not the server it was meant for.
func (c *client) createTopics(topics []newTopic, timeout time.Duration) error {
	w := request(apiCreateTopics, 4, false)
	w.i32(int32(len(topics)))
	for _, t := range topics {
		w.str(t.name)
		w.i32(int32(t.partitions))
		w.i16(1)
		w.i32(0) // assignments
		w.i32(0) // configs
	}
	w.i32(int32(timeout.Milliseconds()))
	w.boolean(false)
	r, err := c.call(w, false, timeout+5*time.Second)
	if err != nil {
		return fmt.Errorf("CreateTopics: %w", err)
	}
	r.i32()
	for n := r.array(); n > 0; n-- {
		name, code, message := r.str(), r.i16(), r.str()
		if code != 0 {
			return fmt.Errorf("CreateTopics %s: error %d %s", name, code, message)
		}
	}
	if r.bad {
		return fmt.Errorf("CreateTopics: the answer is cut short")
	}
	return nil
}

type topicInfo struct {
	name       string
	id         [16]byte
	partitions int
	ready      bool // no error anywhere and each partition has a leader
}

// metadata describes the named topics, all of them if names is nil.
func (c *client) metadata(names []string) ([]topicInfo, error) {
	w := request(apiMetadata, 12, true)
	if names == nil {
		w.compactNull()
	} else {
		w.compactArray(len(names))
		for _, name := range names {
			w.raw(make([]byte, 16))
			w.compactString(name)
			w.tags()
		}
	}
	w.boolean(false)
	w.boolean(false)
	w.tags()
	r, err := c.call(w, true, 60*time.Second)
	if err != nil {
		return nil, fmt.Errorf("Metadata: %w", err)
	}
	r.i32()
	for n := r.compactArray(); n > 0; n-- {
		r.i32()
		r.compactBytes()
		r.i32()
		r.compactBytes()
		r.tags()
	}
	r.compactBytes()
	r.i32()
	n := r.compactArray()
	topics := make([]topicInfo, 0, n)
	for ; n > 0 && !r.bad; n-- {
		t := topicInfo{ready: r.i16() == 0, name: r.compactString()}
		copy(t.id[:], r.take(16))
		r.i8()
		for m := r.compactArray(); m > 0 && !r.bad; m-- {
			t.partitions++
			code := r.i16()
			r.i32()
			leader := r.i32()
			t.ready = t.ready && code == 0 && leader >= 0
			r.i32()
			for range 3 {
				r.take(4 * r.compactArray())
			}
			r.tags()
		}
		t.ready = t.ready && t.partitions > 0
		r.i32()
		r.tags()
		topics = append(topics, t)
	}
	if r.bad {
		return nil, fmt.Errorf("Metadata: the answer is cut short")
	}
	return topics, nil
}

const (
	latest   = -1
	earliest = -2
)

func listOffsetsRequest(topic string, partitions []int32, timestamp int64) *writer {
	return listOffsetsOf(topic, partitions, timestamp, 0)
}

func listOffsetsOf(topic string, partitions []int32, timestamp int64, isolation int8) *writer {
	w := request(apiListOffsets, 7, true)
	w.i32(-1)
	w.i8(isolation)
	w.compactArray(1)
	w.compactString(topic)
	w.compactArray(len(partitions))
	for _, p := range partitions {
		w.i32(p)
		w.i32(-1)
		w.i64(timestamp)
		w.tags()
	}
	w.tags()
	w.tags()
	return w
}

// parseListOffsets gives the sum of the offsets.
func parseListOffsets(r *reader) (int64, error) {
	var sum int64
	r.i32()
	for n := r.compactArray(); n > 0 && !r.bad; n-- {
		r.compactBytes()
		for m := r.compactArray(); m > 0 && !r.bad; m-- {
			partition, code := r.i32(), r.i16()
			r.i64()
			sum += r.i64()
			r.i32()
			r.tags()
			if code != 0 {
				return 0, fmt.Errorf("ListOffsets, partition %d: error %d", partition, code)
			}
		}
		r.tags()
	}
	if r.bad {
		return 0, fmt.Errorf("ListOffsets: the answer is cut short")
	}
	return sum, nil
}

// endOffsets is the sum of the partitions' latest offsets.
func (c *client) endOffsets(topic string, partitions int) (int64, error) {
	all := make([]int32, partitions)
	for i := range all {
		all[i] = int32(i)
	}
	r, err := c.call(listOffsetsRequest(topic, all, latest), true, 30*time.Second)
	if err != nil {
		return 0, fmt.Errorf("ListOffsets: %w", err)
	}
	return parseListOffsets(r)
}

// initProducerID gets an idempotent producer's id; it retries while the coordinator loads.
func (c *client) initProducerID() (int64, int16, error) {
	for attempt := 0; ; attempt++ {
		w := request(apiInitProducerID, 4, true)
		w.compactNull()
		w.i32(60000)
		w.i64(-1)
		w.i16(-1)
		w.tags()
		r, err := c.call(w, true, 30*time.Second)
		if err != nil {
			return 0, 0, fmt.Errorf("InitProducerId: %w", err)
		}
		r.i32()
		code, id, epoch := r.i16(), r.i64(), r.i16()
		if r.bad {
			return 0, 0, fmt.Errorf("InitProducerId: the answer is cut short")
		}
		if code == 0 {
			return id, epoch, nil
		}
		if attempt == 100 {
			return 0, 0, fmt.Errorf("InitProducerId: error %d", code)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// prepareTopic creates a topic and waits until it is served; it returns what Metadata says of it.
func prepareTopic(address, name string, partitions int) (topicInfo, error) {
	c, err := connect(address)
	if err != nil {
		return topicInfo{}, err
	}
	defer c.close()
	if err := c.createTopics([]newTopic{{name, partitions}}, 30*time.Second); err != nil {
		return topicInfo{}, err
	}
	var last error
	for range 600 {
		topics, err := c.metadata([]string{name})
		if err != nil {
			return topicInfo{}, err
		}
		if len(topics) == 1 && topics[0].ready {
			// The metadata may be ahead of the partition's log.
			if _, last = c.endOffsets(name, partitions); last == nil {
				return topics[0], nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return topicInfo{}, fmt.Errorf("topic %s is not served after 30 s (%v)", name, last)
}
