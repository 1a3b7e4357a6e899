// Sarama: the shared cases on its producers, consumers and ClusterAdmin. -version is Config.Version, the protocol
// versions that it may use; without it the library's default. -queue: the cases of queue topics instead.
package main

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"

	"github.com/IBM/sarama"
	"magnetar/compat"
)

type library struct{ version sarama.KafkaVersion }

func (library) Code(err error) (int16, bool) {
	var known sarama.KError
	if errors.As(err, &known) {
		return int16(known), true
	}
	return 0, false
}

func (l library) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = l.version
	config.Admin.Retry.Max = 100 // of 100 ms: a new Kafka needs seconds until its first coordinator is there
	secure(config)
	return config
}

func main() {
	name := "go-sarama"
	version := sarama.DefaultVersion
	flag.Func("version", "Config.Version", func(text string) (err error) {
		version, err = sarama.ParseKafkaVersion(text)
		return err
	})
	// The cases depend on it, so it is looked at before Main reads the command line.
	for n, word := range os.Args {
		if strings.TrimLeft(word, "-") == "version" && n+1 < len(os.Args) {
			version = compat.Try(sarama.ParseKafkaVersion(os.Args[n+1]))
			name += "-" + strings.Join(strings.Split(os.Args[n+1], ".")[:2], ".") // the client's folder
		}
	}
	flag.Bool("queue", false, "the cases of queue topics")
	compat.Add("transactions", transactions)
	compat.Drop("subscribe_pattern")
	if !version.IsAtLeast(sarama.V2_8_0_0) {
		compat.Drop("describe_producers")
	}
	if !version.IsAtLeast(sarama.V2_4_0_0) {
		compat.Drop("rebalance_cooperative", "static_membership", "error_fenced_instance", "alter_configs",
			"describe_features", "group_offsets", "error_group_not_empty")
	}
	if slices.Contains(os.Args, "-queue") {
		name += "-queue"
		compat.QueueCases()
	}
	compat.Main(library{version}, name, "github.com/IBM/sarama")
}
