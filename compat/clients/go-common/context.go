package compat

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Context is what a case gets: the server's address, unique names, the time that is left.
type Context struct {
	Case      string
	Bootstrap string
	Detail    string
	Refused   string
	Library   Library

	limit   time.Duration
	mutex   sync.Mutex
	end     time.Time
	gate    *barrier
	once    sync.Once
	cleanup []func()
	admin   Admin
}

type barrier struct {
	arrived   chan struct{}
	released  chan struct{}
	bootstrap string
}

func newContext(s *session, name string, gate *barrier) *Context {
	return &Context{
		Case: name, Bootstrap: s.bootstrap, Library: s.library, limit: s.limit, end: time.Now().Add(s.limit), gate: gate,
	}
}

// Left is the time left for this case.
func (c *Context) Left() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return time.Until(c.end)
}

func (c *Context) extend(by time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.end = time.Now().Add(by)
}

// Within is Go's context with a deadline, at the latest the end of the case. It is released when the case ends.
func (c *Context) Within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), min(limit, c.Left()))
	c.Closing(cancel)
	return ctx
}

// Go is Go's context for calls that may take as long as the case has.
func (c *Context) Go() context.Context { return c.Within(c.limit) }

func (c *Context) unique(label string) string {
	noise := make([]byte, 5)
	_, _ = rand.Read(noise)
	return fmt.Sprintf("compat.%s.%s.%s", c.Case, label, hex.EncodeToString(noise))
}

// TopicName is one that nobody else has.
func (c *Context) TopicName() string { return c.unique("t") }

// Group is a group's name that nobody else has.
func (c *Context) Group() string { return c.unique("g") }

// Until asks until the answer is true; fails when the time is up.
func (c *Context) Until(what string, ask func() bool) {
	for c.Left() > 0 {
		if ask() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	panic("gave up waiting for " + what)
}

func (c *Context) arrive() { c.once.Do(func() { c.gate.arrived <- struct{}{} }) }

// Restart comes back after the server was restarted.
func (c *Context) Restart() {
	c.extend(24 * time.Hour)
	c.arrive()
	<-c.gate.released
	c.Bootstrap = c.gate.bootstrap
	c.extend(c.limit)
}

// Closing is called when the case ends, whatever its outcome; the last one given comes first.
func (c *Context) Closing(close func()) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.cleanup = append(c.cleanup, close)
}

func (c *Context) clean() {
	c.mutex.Lock()
	cleanup := c.cleanup
	c.mutex.Unlock()
	for n := len(cleanup) - 1; n >= 0; n-- {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				// The case has its verdict; a client that closes badly is worth a line, not a failure.
				if problem := recover(); problem != nil {
					fmt.Fprintf(os.Stderr, "%s: closing: %v\n", c.Case, problem)
				}
			}()
			cleanup[n]()
		}()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			fmt.Fprintf(os.Stderr, "%s: closing takes too long\n", c.Case)
		}
	}
}

// Cable dials for a client and can be cut: to the server the client is then dead.
type Cable struct {
	mutex sync.Mutex
	cut   bool
	conns []net.Conn
}

// DialContext is net.Dialer's, as clients take it.
func (c *Cable) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.cut {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// Dial is DialContext for clients that take a proxy.Dialer.
func (c *Cable) Dial(network, address string) (net.Conn, error) {
	return c.DialContext(context.Background(), network, address)
}

// Cut closes all connections and lets no new one come about.
func (c *Cable) Cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
