// Shareload drives a share group, or a transactional producer, with franz-go and prints what it saw as JSON. See the README of compat/bench.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

const usage = `usage: shareload LOAD [flags]

loads:
  fill       makes a topic, fills it, and sets the group's configs: what every other load begins with
  backlog    fills a topic, then members read it together; each record is accepted by itself
  dead       fills a topic, nacks a part of it for ever, waits until that part is in the dead letter topic
  latency    from publishing to delivery at a steady rate
  delayed    records that are due later: how late they come, and whether one came early
  scattered  large lz4 batches whose records fall due one by one, and another client that produces meanwhile
  first      from making a member to its first record
  burst      records that come at once before members that wait and take 10 ms for each
  lost       a member of a queue topic's group is killed: when what it had is with others (hold: that member)
  open       a queue topic's consumer reads and commits nothing: what memory the server needs for it
  confirm    accepts half of a topic, waits until that is confirmed, and kills the server's process at once
  transactions  one producer, one transaction after another, a record in each partition
  pipeline   fills a topic; one consumer and producer copies it, exactly once
  again      after confirm and a restart: reads what is left and counts what had been confirmed

"shareload LOAD -h" lists the flags. Exit code 1: the load failed, or a record came that must not or did not come.
`

// options are the flags of all loads.
type options struct {
	address, topic, group string
	configs               pairs
	partitions, records   int
	size, batch, keys     int
	members, lanes        int
	warmup, duration      time.Duration
	limit                 time.Duration
	atLeast               int
	releaseEvery          int
	all, ordered, single  bool
	there                 bool
	hot                   float64
	burst                 int
	rate, tries, pid      int
	deadLetters           string
	file                  string
}

// pairs is a repeatable key=value flag.
type pairs [][2]string

func (p *pairs) String() string { return fmt.Sprint(*p) }

func (p *pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("expected key=value")
	}
	*p = append(*p, [2]string{key, value})
	return nil
}

func main() {
	if len(os.Args) < 2 || loads[os.Args[1]] == nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	// The collector's work is the client's, the same against every server; less of it shows more of the server.
	debug.SetGCPercent(400)
	figures, err := loads[os.Args[1]](parse(os.Args[1], os.Args[2:]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "shareload:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(figures); err != nil {
		os.Exit(1)
	}
}

var loads = map[string]func(*options) (any, error){
	"fill": fillOnly, "backlog": backlog, "dead": dead, "latency": latency, "delayed": delayed, "scattered": scattered,
	"first": first, "burst": burst,
	"lost": lost, "hold": hold, "open": open,
	"confirm": confirm, "again": again,
	"transactions": transactions, "pipeline": pipeline,
}

func parse(load string, arguments []string) *options {
	flags := flag.NewFlagSet("shareload "+load, flag.ExitOnError)
	o := &options{}
	flags.StringVar(&o.address, "address", "127.0.0.1:9092", "host:port of the broker")
	flags.StringVar(&o.topic, "topic", "bench-share", "topic; it is made, and must not exist unless -there")
	flags.StringVar(&o.group, "group", "bench-share", "share group")
	flags.Var(&o.configs, "config", "a config of the group, key=value (repeatable)")
	flags.IntVar(&o.partitions, "partitions", 4, "partitions of the topic")
	flags.IntVar(&o.records, "records", 100_000, "records in the topic")
	flags.IntVar(&o.size, "size", 100, "bytes of a record's value")
	flags.IntVar(&o.batch, "batch", 16384, "largest batch, bytes (the Java producer's default)")
	flags.IntVar(&o.keys, "keys", 0, "distinct keys; 0: records without a key")
	flags.Float64Var(&o.hot, "hot", 0, "the part of the records that have one hot key (0 to 1); backlog -all waits for the others and counts them only")
	flags.IntVar(&o.burst, "burst", 0, "so many records of the hot key come before all others")
	flags.IntVar(&o.members, "members", 4, "backlog, dead, lost: members")
	flags.IntVar(&o.lanes, "lanes", 0, "lanes of a queue topic that serves the group; 0: it is a share group")
	flags.DurationVar(&o.warmup, "warmup", 2*time.Second, "not measured; ends earlier when a third is read")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "shortest window")
	flags.IntVar(&o.atLeast, "at-least", 0, "backlog: records in the window")
	flags.DurationVar(&o.limit, "limit", 2*time.Minute, "longest window; waiting for something longer fails")
	flags.IntVar(&o.releaseEvery, "release-every", 0, "release the first delivery of each n-th record (dead: every one)")
	flags.BoolVar(&o.all, "all", false, "backlog: no warm-up, until every record is accepted")
	flags.BoolVar(&o.ordered, "ordered", false, "backlog: check that each key's records come in order")
	flags.BoolVar(&o.there, "there", false, "fill: the topic is there already")
	flags.BoolVar(&o.single, "single", false, "burst: every record is a batch of its own")
	flags.IntVar(&o.rate, "rate", 5000, "latency, delayed: records a second")
	flags.IntVar(&o.tries, "tries", 5, "first: members, one after another, each in a group of its own; lost: kills, each likewise")
	flags.IntVar(&o.pid, "pid", 0, "confirm, open: the server's process")
	flags.StringVar(&o.deadLetters, "dead-letters", "", "dead: the dead letter topic")
	flags.StringVar(&o.file, "file", "", "confirm, again: what was confirmed")
	_ = flags.Parse(arguments) // ends the process on a wrong flag
	return o
}
