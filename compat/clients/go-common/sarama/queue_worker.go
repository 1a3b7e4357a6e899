package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"magnetar/compat"
)

// page: begin

var errHopeless = errors.New("no other try will do")

// queueWorker is a sarama.ConsumerGroupHandler. The last mark of a lane carries its metadata, so the names of all that was
// marked since the last commit go into each mark; with AutoCommit.Enable off no other commit can come between.
type queueWorker struct {
	handle func(*sarama.ConsumerMessage) error
}

func (queueWorker) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (queueWorker) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (w queueWorker) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	names := "ack1"
	for message := range claim.Messages() {
		switch err := w.handle(message); {
		case errors.Is(err, errHopeless):
			names += fmt.Sprintf(";d=%d", message.Offset) // a dead letter now
		case err != nil:
			names += fmt.Sprintf(";n:1000=%d", message.Offset) // again in a second
		}
		metadata := ""
		if names != "ack1" {
			metadata = names
		}
		session.MarkMessage(message, metadata)
		if len(claim.Messages()) == 0 || len(names) > 3000 {
			// names are repeated until they are many: a commit that was lost must not make a nack an acknowledgement,
			// and those of what is settled are passed over
			session.Commit()
			if len(names) > 3000 {
				names = "ack1"
			}
		}
		if session.Context().Err() != nil {
			return nil
		}
	}
	return nil
}

// page: end

// WorkQueue is the page's program at work.
func (l library) WorkQueue(c *compat.Context, group, topic string, handle func(string) string) func() {
	config := l.config()
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	client := compat.Try(sarama.NewConsumerGroup([]string{c.Bootstrap}, group, config))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = client.Consume(ctx, []string{topic}, queueWorker{func(message *sarama.ConsumerMessage) error {
				switch handle(string(message.Value)) {
				case "hopeless":
					return errHopeless
				case "again":
					return errors.New("not now")
				}
				return nil
			}})
		}
	}()
	return func() {
		stop()
		<-done
		compat.Must(client.Close())
	}
}
