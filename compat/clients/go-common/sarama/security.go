package main

import (
	"crypto/sha256"
	"crypto/sha512"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"magnetar/compat"
)

// secure puts TLS and logins into a configuration, where there are any.
func secure(config *sarama.Config) {
	told := compat.Secured()
	if told == nil {
		return
	}
	config.Net.TLS.Enable, config.Net.TLS.Config = true, told.TLS()
	if told.Mechanism == "" {
		return
	}
	login := &config.Net.SASL
	login.Enable, login.Mechanism = true, sarama.SASLMechanism(told.Mechanism)
	login.User, login.Password = told.User, told.Password
	switch told.Mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: sha256.New} }
	case sarama.SASLTypeSCRAMSHA512:
		login.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{hash: sha512.New} }
	case sarama.SASLTypeOAuth:
		login.TokenProvider = provider{told}
	}
}

// conversation is one login by SCRAM, which Sarama leaves to a library of its user's.
type conversation struct {
	hash scram.HashGeneratorFcn
	own  *scram.ClientConversation
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.own = client.NewConversation()
	}
	return err
}

func (c *conversation) Step(challenge string) (string, error) { return c.own.Step(challenge) }

func (c *conversation) Done() bool { return c.own.Done() }

type provider struct{ told *compat.Security }

func (p provider) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: p.told.Token()}, nil
}
