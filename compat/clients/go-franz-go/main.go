// franz-go: the shared cases of ../go-common on kgo and kadm.
package main

import (
	"errors"

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
	client := compat.Try(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Bootstrap)}, options...)...))
	c.Closing(client.Close)
	return client
}

func main() { compat.Main(library{}, "go-franz-go", "github.com/twmb/franz-go") }
