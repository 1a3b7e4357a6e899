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

// spans are neighbours of one fate each. 80 are sure to fit into the 4,096 characters of a commit's metadata.
type spans []struct {
	verb        string
	first, last int64
}

func (s *spans) name(verb string, offset int64) {
	if end := len(*s) - 1; end >= 0 && (*s)[end].verb == verb && (*s)[end].last == offset-1 {
		(*s)[end].last = offset
		return
	}
	*s = append(*s, spans{{verb, offset, offset}}...)
}

func (s spans) String() (names string) {
	for _, one := range s {
		names += fmt.Sprintf(";%s=%d-%d", one.verb, one.first, one.last)
	}
	if names == "" {
		return ""
	}
	return "ack1" + names
}

// queueWorker is a sarama.ConsumerGroupHandler. It commits by itself, for a session does not tell whether a commit was taken:
// make the group with NewConsumerGroupFromClient, of this client, with AutoCommit.Enable off.
type queueWorker struct {
	client sarama.Client
	group  string
	handle func(*sarama.ConsumerMessage) error
}

func (queueWorker) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (queueWorker) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (w queueWorker) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	said := spans{}
	for message := range claim.Messages() {
		switch err := w.handle(message); {
		case errors.Is(err, errHopeless):
			said.name("d", message.Offset) // a dead letter now
		case err != nil:
			said.name("n:1000", message.Offset) // again in a second
		}
		if len(claim.Messages()) == 0 || len(said) == 80 {
			if err := w.commit(session, message, said.String()); err != nil {
				return err // that ends the session, and the next one begins where the group stands
			}
			said = spans{}
		}
		if session.Context().Err() != nil {
			return nil
		}
	}
	return nil
}

func (w queueWorker) commit(session sarama.ConsumerGroupSession, last *sarama.ConsumerMessage, names string) error {
	request := sarama.NewOffsetCommitRequest(w.client.Config(), w.group)
	request.ConsumerID, request.ConsumerGroupGeneration = session.MemberID(), session.GenerationID()
	request.AddBlock(last.Topic, last.Partition, last.Offset+1, 0, names)
	coordinator, err := w.client.Coordinator(w.group)
	if err != nil {
		return err
	}
	answer, err := coordinator.CommitOffset(request)
	if err != nil {
		return err
	}
	if code := answer.Errors[last.Topic][last.Partition]; code != sarama.ErrNoError {
		return code
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
	client := compat.Try(sarama.NewClient([]string{c.Bootstrap}, config))
	member := compat.Try(sarama.NewConsumerGroupFromClient(group, client))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = member.Consume(ctx, []string{topic}, queueWorker{client, group, func(message *sarama.ConsumerMessage) error {
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
		compat.Must(member.Close())
		compat.Must(client.Close())
	}
}
