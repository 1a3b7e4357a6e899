package main

import (
	"crypto/tls"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"magnetar/compat"
)

// secured gives the options of TLS and logins. A dialer that comes after them takes the place of theirs.
func secured() []kgo.Opt {
	told := compat.Secured()
	if told == nil {
		return nil
	}
	options := []kgo.Opt{kgo.Dialer((&tls.Dialer{Config: told.TLS()}).DialContext)}
	user := scram.Auth{User: told.User, Pass: told.Password}
	switch told.Mechanism {
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(user.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(user.AsSha512Mechanism()))
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: told.User, Pass: told.Password}.AsMechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: told.Token()}.AsMechanism()))
	}
	return options
}
