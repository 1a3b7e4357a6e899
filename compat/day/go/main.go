// A member in Go: a whole consumer of a queue topic with franz-go. Arguments and lines as in ../worker.py and ../events.py.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	out      = bufio.NewWriterSize(os.Stdout, 1<<16)
	speaking sync.Mutex // the client calls back from a goroutine of its own
)

func say(format string, values ...any) {
	speaking.Lock()
	defer speaking.Unlock()
	fmt.Fprintf(out, format+"\n", values...)
}

func flush() {
	speaking.Lock()
	defer speaking.Unlock()
	if out.Flush() != nil {
		os.Exit(1) // nobody listens any more
	}
}

// now in microseconds since 1970.
func now() int64 { return time.Now().UnixMicro() }

func main() {
	bootstrap, group, topic, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ms, err := strconv.Atoi(os.Args[5])
	if err != nil {
		panic(err)
	}
	ctx, over := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over()
	}()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ClientID(name), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(3*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.BlockRebalanceOnPoll(), // lanes are let go of between two polls only
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, places map[string][]int32) {
			lanes := strings.Trim(strings.ReplaceAll(fmt.Sprint(places[topic]), " ", ","), "[]")
			if lanes == "" {
				lanes = "-"
			}
			say("holds %d %s", now(), lanes)
			flush()
		}),
		kgo.OnPartitionsRevoked(revoked), kgo.OnPartitionsLost(revoked),
	)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		within, enough := context.WithTimeout(ctx, 200*time.Millisecond)
		work(client, client.PollRecords(within, 50).Records(), time.Duration(ms)*time.Millisecond)
		enough()
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	flush()
}

func revoked(context.Context, *kgo.Client, map[string][]int32) {
	say("holds %d -", now())
	flush()
}

// work does what one poll gave, and says what became of it in one commit.
func work(client *kgo.Client, records []*kgo.Record, pause time.Duration) {
	done, names := map[int32]kgo.EpochOffset{}, map[int32]string{}
	for _, one := range records {
		if names[one.Partition] != "" {
			continue
		}
		began := now()
		time.Sleep(pause)
		number, rest, _ := strings.Cut(string(one.Value), " ")
		failed := "0"
		for _, header := range one.Headers {
			if header.Key == "pulsar-redelivery-count" {
				failed = string(header.Value)
			}
		}
		verdict := "done"
		if rest == "poison" {
			// a nack, and "s": the rest of this lane is left for now, so that nothing of the key is done before it
			names[one.Partition] = fmt.Sprintf("ack1;s;n=%d", one.Offset)
			verdict = "nack"
		}
		say("took %d %d %d %d %s %s %s %s", began, now(), one.Partition, one.Offset, one.Key, number, failed, verdict)
		flush() // at once: who is killed in the next moment has said what it did
		done[one.Partition] = kgo.EpochOffset{Epoch: -1, Offset: one.Offset + 1}
	}
	if len(done) == 0 || !commit(client, records[0].Topic, done, names) {
		return
	}
	back := map[int32]kgo.EpochOffset{}
	for lane, place := range done {
		say("acked %d %d %d", now(), lane, place.Offset)
		if names[lane] != "" {
			back[lane] = place
		}
	}
	if len(back) > 0 {
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{records[0].Topic: back})
	}
	flush()
}

// commit until it is answered: the gateway may be away for a while. False when the lanes are another's.
func commit(client *kgo.Client, topic string, done map[int32]kgo.EpochOffset, names map[int32]string) bool {
	ctx := kgo.PreCommitFnContext(context.Background(), func(request *kmsg.OffsetCommitRequest) error {
		for n := range request.Topics[0].Partitions {
			one := &request.Topics[0].Partitions[n]
			said := names[one.Partition]
			one.Metadata = &said
		}
		return nil
	})
	for {
		var failed error
		client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: done}, func(
			_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
		) {
			if failed = err; err == nil {
				for _, one := range answer.Topics[0].Partitions {
					if problem := kerr.ErrorForCode(one.ErrorCode); problem != nil {
						failed = problem
					}
				}
			}
		})
		if failed == nil {
			return true
		}
		for _, gone := range []error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress} {
			if errors.Is(failed, gone) {
				return false // what is not committed comes again there
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}
