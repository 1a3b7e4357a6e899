// Package compat is what the Go programs share: the command line, time limits, the JSON lines, and the cases
// themselves, written once against Library. A program implements Library on its client and calls Main.
// ../cases.toml says what each case proves; ../README.md how a program behaves.
package compat

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Case fails by panicking, mostly through Check, Same and Must.
type Case func(*Context)

type named struct {
	name string
	run  Case
}

var cases []named

// Add registers a case, instead of the shared one of this name if there is one.
func Add(name string, run Case) {
	Drop(name)
	cases = append(cases, named{name, run})
}

// Drop removes shared cases: client.toml says under [lacks] why the client has no feature for them.
func Drop(names ...string) {
	cases = slices.DeleteFunc(cases, func(one named) bool { return slices.Contains(names, one.name) })
}

// DropAll begins with no case at all: for a client with a section of its own.
func DropAll() { cases = nil }

var printing sync.Mutex

func emit(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(text))
}

type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(name string) error {
	*l = append(*l, name)
	return nil
}

// Main is the command line of a program; it ends the process. module is the client's, for its version.
func Main(library Library, client, module string) {
	var names list
	flag.Var(&names, "case", "only this case; may be repeated")
	bootstrap := flag.String("bootstrap", "", "HOST:PORT of the server")
	skip := flag.Bool("skip-restart", false, "leave out the cases that need a restart of the server")
	show := flag.Bool("list", false, "print the names of the cases and end")
	parallel := flag.Int("parallel", 4, "cases at a time")
	limit := flag.Float64("limit", 30, "seconds for a case")
	flag.Parse()
	head := map[string]any{"client": client, "version": version(module)}
	if *show {
		all := []string{}
		for _, one := range cases {
			all = append(all, one.name)
		}
		head["cases"] = all
		emit(head)
		return
	}
	if *bootstrap == "" {
		fmt.Fprintln(os.Stderr, "-bootstrap is needed")
		os.Exit(2)
	}
	for _, name := range names {
		if !slices.ContainsFunc(cases, func(one named) bool { return one.name == name }) {
			fmt.Fprintln(os.Stderr, "no such case:", name)
			os.Exit(2)
		}
	}
	emit(head)
	run := &session{library: library, bootstrap: *bootstrap, limit: time.Duration(*limit * float64(time.Second))}
	var plain, restarts []named
	for _, one := range cases {
		switch {
		case len(names) > 0 && !slices.Contains(names, one.name):
		case !strings.HasPrefix(one.name, "restart_"):
			plain = append(plain, one)
		case !*skip:
			restarts = append(restarts, one)
		}
	}
	run.plain(plain, *parallel)
	run.restarts(restarts)
	if run.failed > 0 {
		os.Exit(1)
	}
}

func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, one := range info.Deps {
			if one.Path == module {
				return strings.TrimPrefix(one.Version, "v")
			}
		}
	}
	return "unknown"
}

// session is one run of the program.
type session struct {
	library   Library
	bootstrap string
	limit     time.Duration
	mutex     sync.Mutex
	failed    int
}

func (s *session) plain(work []named, parallel int) {
	queue := make(chan named)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for one := range queue {
				s.run(one, newContext(s, one.name, nil))
			}
		})
	}
	for _, one := range work {
		queue <- one
	}
	close(queue)
	workers.Wait()
}

// restarts runs all at once up to the restart, tells the harness, waits for its line, goes on.
func (s *session) restarts(work []named) {
	if len(work) == 0 {
		return
	}
	gate := &barrier{arrived: make(chan struct{}, 2*len(work)), released: make(chan struct{})}
	var done sync.WaitGroup
	for _, one := range work {
		ctx := newContext(s, one.name, gate)
		done.Go(func() {
			s.run(one, ctx)
			ctx.arrive() // one that failed before the restart must not be waited for
		})
	}
	patience := time.After(s.limit + 15*time.Second)
waiting:
	for range work {
		select {
		case <-gate.arrived:
		case <-patience:
			break waiting
		}
	}
	emit(map[string]any{"waiting": "restart"})
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	gate.bootstrap = s.bootstrap
	if words := strings.Fields(line); len(words) > 1 {
		gate.bootstrap = words[1]
	}
	close(gate.released)
	done.Wait()
}

// run takes one case to its verdict; one that is past its time is reported and left behind.
func (s *session) run(one named, ctx *Context) {
	started := time.Now()
	verdict := make(chan map[string]any, 1)
	go func() {
		line := map[string]any{"case": one.name, "ok": true}
		defer func() {
			if problem := recover(); problem != nil {
				line["ok"] = false
				ctx.Detail = fmt.Sprintf("%v%s", problem, where())
			}
			line["detail"] = ctx.Detail
			if ctx.Refused != "" {
				line["refused"] = ctx.Refused
			}
			line["ms"] = time.Since(started).Milliseconds()
			verdict <- line
			ctx.clean()
		}()
		one.run(ctx)
	}()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case line := <-verdict:
			s.report(line)
			return
		case <-tick.C:
			if ctx.Left() < -10*time.Second {
				detail := fmt.Sprintf("no end after %.0f s", (s.limit + 10*time.Second).Seconds())
				s.report(map[string]any{
					"case": one.name, "ok": false, "detail": detail, "ms": time.Since(started).Milliseconds(),
				})
				return
			}
		}
	}
}

func (s *session) report(line map[string]any) {
	s.mutex.Lock()
	if line["ok"] == false {
		s.failed++
	}
	s.mutex.Unlock()
	emit(line)
}

// where gives the line of a case or of a program that panicked.
func where() string {
	callers := make([]uintptr, 40)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	for {
		frame, more := frames.Next()
		file := filepath.Base(frame.File)
		if strings.Contains(frame.File, "compat/clients/go-") && file != "expect.go" && file != "runner.go" {
			return fmt.Sprintf(" (%s:%d)", file, frame.Line)
		}
		if !more {
			return ""
		}
	}
}
