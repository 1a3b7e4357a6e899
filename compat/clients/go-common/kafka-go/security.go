package main

import (
	"crypto/tls"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"magnetar/compat"
)

// secured gives the TLS and the login of a client; both are nil in the clear.
func secured() (*tls.Config, sasl.Mechanism) {
	told := compat.Secured()
	if told == nil {
		return nil, nil
	}
	switch told.Mechanism {
	case "SCRAM-SHA-256":
		return told.TLS(), compat.Try(scram.Mechanism(scram.SHA256, told.User, told.Password))
	case "SCRAM-SHA-512":
		return told.TLS(), compat.Try(scram.Mechanism(scram.SHA512, told.User, told.Password))
	case "PLAIN":
		return told.TLS(), plain.Mechanism{Username: told.User, Password: told.Password}
	}
	return told.TLS(), nil
}

// dialer connects readers, and members of groups, of this client id.
func dialer(id string) *kafka.Dialer {
	config, login := secured()
	return &kafka.Dialer{ClientID: id, Timeout: 10 * time.Second, TLS: config, SASLMechanism: login}
}
