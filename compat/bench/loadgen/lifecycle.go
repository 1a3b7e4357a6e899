package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// startResult is the time from starting a process to its first answer.
type startResult struct {
	Load         string  `json:"load"`
	Milliseconds float64 `json:"start_ms"`
	Errors       int64   `json:"errors"`
	Verified     bool    `json:"verified"`
}

// startUp runs the command, asks for ApiVersions on a new connection every two milliseconds until it is answered
// without error, then ends the process (SIGTERM, SIGKILL after 20 s).
func startUp(address string, command []string, log string, timeout time.Duration) (*startResult, error) {
	if awaitAnswer(address, 0) == nil {
		return nil, fmt.Errorf("somebody answers on %s already", address)
	}
	cmd := exec.Command(command[0], command[1:]...)
	if log != "" {
		file, err := os.Create(log)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		cmd.Stdout, cmd.Stderr = file, file
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	answered := make(chan error, 1)
	go func() { answered <- awaitAnswer(address, timeout) }()
	var err error
	select {
	case err = <-answered:
	case <-ended:
		said, _ := os.ReadFile(log)
		return nil, fmt.Errorf("the process ended before it answered:\n%s", said[max(0, len(said)-2000):])
	}
	took := time.Since(begin)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		<-ended
	}
	if err != nil {
		return nil, err
	}
	return &startResult{Milliseconds: millis(took), Verified: true}, nil
}

// awaitAnswer polls for ApiVersions; a timeout of 0 tries once.
func awaitAnswer(address string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		err := askVersions(address)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func askVersions(address string) error {
	c, err := connect(address)
	if err != nil {
		return err
	}
	defer c.close()
	r, err := c.call(request(apiAPIVersions, 0, false), false, 5*time.Second)
	if err != nil {
		return err
	}
	code := r.i16()
	if n := r.array(); code != 0 || n == 0 || r.bad {
		return fmt.Errorf("ApiVersions: error %d, %d APIs", code, n)
	}
	return nil
}

type topicsResult struct {
	Load      string  `json:"load"`
	Topics    int     `json:"topics"`
	CreateMS  float64 `json:"created_ms"`
	ReadyMS   float64 `json:"ready_ms"`
	Metadata  float64 `json:"metadata_ms"`
	AnswerMB  float64 `json:"metadata_megabytes"`
	Errors    int64   `json:"errors"`
	Verified  bool    `json:"verified"`
	CPUSecond float64 `json:"generator_cpu_seconds"`
}

// manyTopics creates topics of one partition each, `each` in a request, waits until Metadata names a leader for
// all of them, and then takes the best of five Metadata requests for all.
func manyTopics(address, prefix string, count, each int) (*topicsResult, error) {
	c, err := connect(address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	begin := time.Now()
	for first := 0; first < count; first += each {
		var some []newTopic
		for i := first; i < min(first+each, count); i++ {
			some = append(some, newTopic{fmt.Sprintf("%s-%06d", prefix, i), 1})
		}
		if err := c.createTopics(some, 2*time.Minute); err != nil {
			return nil, err
		}
	}
	res := &topicsResult{Topics: count, CreateMS: millis(time.Since(begin))}
	for {
		all, err := c.metadata(nil)
		if err != nil {
			return nil, err
		}
		ready := 0
		for _, t := range all {
			if t.ready {
				ready++
			}
		}
		if ready >= count {
			break
		}
		if time.Since(begin) > 5*time.Minute {
			return nil, fmt.Errorf("%d of %d topics are ready after five minutes", ready, count)
		}
		time.Sleep(20 * time.Millisecond)
	}
	res.ReadyMS = millis(time.Since(begin))
	best := time.Hour
	w := request(apiMetadata, 12, true)
	w.compactNull()
	w.boolean(false)
	w.boolean(false)
	w.tags()
	for range 5 {
		from := time.Now()
		r, err := c.call(w, true, time.Minute)
		if err != nil {
			return nil, err
		}
		best = min(best, time.Since(from))
		res.AnswerMB = round(float64(len(r.b))/1e6, 3)
	}
	res.Metadata = millis(best)
	res.Verified = true
	res.CPUSecond = round(cpuSeconds(), 3)
	return res, nil
}

// bigEndian32 is a four-byte key, used where a message wants any bytes.
func bigEndian32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
