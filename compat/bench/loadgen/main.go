// Loadgen drives a Kafka broker with one load and prints what it saw as JSON. See the README.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

const usage = `usage: loadgen LOAD [flags]

loads:
  produce       small or large batches, pipelined
  fetch         fills a topic, then reads it again and again
  list-offsets  the latest offset of one partition
  end-to-end    producer to consumer at a steady rate
  session       one record at a time through a fetch session of many partitions
  start         loadgen start -address A [-log F] -- COMMAND...: time to the first answer
  topics        creates many topics, then Metadata of all
  group         members of a consumer group join, settle, one leaves
  members       the same of KIP-848 consumers; more join, one after another
  committed     fills a topic by transactions, then reads it with read_committed again and again
  logins        many connections, one after another: handshake, login, one request
  end-txn       the end of a transaction over many partitions that are all new

"loadgen LOAD -h" lists a load's flags. Exit code 1: the load failed or an answer was wrong.
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	// The loads do not allocate while they run; the collector only gets in the way.
	debug.SetGCPercent(400)
	res, verified, err := load(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadgen:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(res); err != nil || !verified {
		os.Exit(1)
	}
}

func load(name string, arguments []string) (any, bool, error) {
	flags := flag.NewFlagSet("loadgen "+name, flag.ExitOnError)
	address := flags.String("address", "127.0.0.1:9092", "host:port of the broker")
	topic := flags.String("topic", "bench-"+name, "topic, or prefix of the topics")
	connections := flags.Int("connections", 64, "connections")
	depth := flags.Int("depth", 1, "requests in flight on each connection")
	partitions := flags.Int("partitions", 8, "partitions of the topic")
	records := flags.Int("records", 1, "records in a batch")
	size := flags.Int("size", 100, "bytes of a record's value")
	warmup := flags.Duration("warmup", 2*time.Second, "not measured, at the start")
	settle := flags.Duration("settle", 0, "produce, fetch, list-offsets: go on warming up until the rate stands still, so long at most")
	duration := flags.Duration("duration", 5*time.Second, "measured")
	acks := flags.Int("acks", -1, "produce: acknowledgements, -1 or 1")
	idempotent := flags.Bool("idempotent", false, "produce: one idempotent producer a connection")
	count := flags.Int64("count", 0, "produce: requests of each connection, instead of a duration")
	fill := flags.Int("fill", 1000, "fetch: batches in each partition")
	maxBytes := flags.Int("max-bytes", 1<<20, "fetch: limit of an answer")
	oneBatch := flags.Bool("one-batch", false, "fetch: one batch in each answer")
	once := flags.Bool("once", false, "fetch: read each partition once from its start, instead of for a duration")
	rate := flags.Int("rate", 5000, "end-to-end: records a second")
	log := flags.String("log", "", "start: file for the process's output")
	timeout := flags.Duration("timeout", time.Minute, "start: longest wait for the first answer")
	topics := flags.Int("topics", 10000, "topics: how many")
	each := flags.Int("each", 100, "topics: how many in one CreateTopics")
	members := flags.Int("members", 20, "group, members: members")
	more := flags.Int("more", 5, "members: how many join later")
	transactions := flags.Int("transactions", 1000, "committed: how many; each has a batch in each partition")
	producers := flags.Int("producers", 8, "committed: how many write them")
	abortedOf := flags.Int("aborted-of", 10, "committed: each such transaction is aborted; 0: none")
	under := flags.Bool("under", false, "committed: all lie within one more transaction")
	heartbeat := flags.Duration("heartbeat", time.Second, "group: heartbeat interval")
	ca := flags.String("tls", "", "over TLS 1.3: a file with the server's CA")
	login := flags.String("login", "", "user:password, by SCRAM-SHA-256")
	lanes := flags.Int("lanes", 8, "logins: how many at a time")
	many := flags.Int("logins", 1000, "logins: how many")
	if err := flags.Parse(arguments); err != nil {
		return nil, false, err
	}
	if err := secureBy(*ca, *login); err != nil {
		return nil, false, err
	}
	if *connections < 1 || *depth < 1 || *partitions < 1 || *records < 1 || *size < 1 {
		return nil, false, fmt.Errorf("connections, depth, partitions, records and size must be positive")
	}
	switch name {
	case "produce":
		if *acks != -1 && *acks != 1 {
			return nil, false, fmt.Errorf("acks must be -1 or 1: a request without an answer cannot be measured")
		}
		res, err := produce(produceOptions{
			address: *address, topic: *topic, connections: *connections, depth: *depth, records: *records,
			size: *size, partitions: *partitions, acks: *acks, idempotent: *idempotent,
			warmup: *warmup, settle: *settle, duration: *duration, count: *count,
		})
		return named(res, err, name)
	case "fetch":
		res, err := fetch(fetchOptions{
			address: *address, topic: *topic, connections: *connections, partitions: *partitions,
			fillBatches: *fill, records: *records, size: *size, maxBytes: *maxBytes, oneBatch: *oneBatch,
			warmup: *warmup, settle: *settle, duration: *duration, once: *once,
		})
		return named(res, err, name)
	case "list-offsets":
		res, err := listOffsets(*address, *topic, *partitions, *connections, *depth, *warmup, *settle, *duration)
		return named(res, err, name)
	case "end-to-end":
		res, err := endToEnd(endToEndOptions{
			address: *address, topic: *topic, rate: *rate, size: *size, warmup: *warmup, duration: *duration,
		})
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	case "session":
		res, err := fetchSession(*address, *topic, *partitions, *warmup, *duration)
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	case "start":
		if flags.NArg() == 0 {
			return nil, false, fmt.Errorf("start needs a command after --")
		}
		res, err := startUp(*address, flags.Args(), *log, *timeout)
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	case "topics":
		res, err := manyTopics(*address, *topic, *topics, *each)
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	case "group":
		res, err := groupRun(*address, *topic, *members, *heartbeat)
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	case "members":
		res, err := membersRun(*address, *topic, *partitions, *members, *more)
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	case "committed":
		res, err := committed(committedOptions{
			address: *address, topic: *topic, connections: *connections, partitions: *partitions,
			transactions: *transactions, producers: *producers, records: *records, size: *size,
			abortedOf: *abortedOf, under: *under, maxBytes: *maxBytes,
			warmup: *warmup, settle: *settle, duration: *duration,
		})
		return named(res, err, name)
	case "logins":
		res, err := manyLogins(*address, *many, *lanes)
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	case "end-txn":
		res, err := endOfMany(*address, *topic, *partitions, *size)
		if err != nil {
			return nil, false, err
		}
		res.Load = name
		return res, res.Verified, nil
	}
	return nil, false, fmt.Errorf("no load %q\n\n%s", name, usage)
}

func named(res *result, err error, name string) (any, bool, error) {
	if err != nil {
		return nil, false, err
	}
	res.Load = name
	return res, res.Verified, nil
}
