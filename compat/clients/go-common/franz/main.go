// franz-go: the shared cases of go-common on kgo and kadm; with -share the cases of share groups instead, with -queue those
// of queue topics.
package main

import (
	"errors"
	"flag"
	"os"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"magnetar/compat"
)

type library struct{}

func (library) Code(err error) (int16, bool) {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code, true
	}
	return 0, false
}

func connect(c *compat.Context, options ...kgo.Opt) *kgo.Client {
	client := compat.Try(kgo.NewClient(append(append(secured(), kgo.SeedBrokers(c.Bootstrap)), options...)...))
	c.Closing(client.CloseAllowingRebalance)
	return client
}

func main() {
	name := "go-franz-go"
	flag.Bool("share", false, "the cases of share groups")
	flag.Bool("queue", false, "the cases of queue topics")
	compat.NewProtocolCases()
	if slices.Contains(os.Args, "-share") { // the cases depend on it: looked at before Main reads the command line
		name = "go-franz-go-share"
		compat.DropAll()
		shareAcknowledging()
		shareMembers()
		shareTopics()
	}
	if slices.Contains(os.Args, "-queue") {
		name = "go-franz-go-queue"
		compat.QueueCases()
		compat.QueueProtocolCases()
	}
	compat.Main(library{}, name, "github.com/twmb/franz-go")
}
