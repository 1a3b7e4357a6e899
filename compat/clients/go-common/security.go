package compat

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
)

// Security is what a program is told of TLS and logins; ../README.md says what the fields are.
type Security struct {
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Password    string `json:"password"`
	TokenFile   string `json:"token_file"`
}

// Secured is what the variable COMPAT_SECURITY holds; nil without it: clients connect in the clear then.
func Secured() *Security {
	text := os.Getenv("COMPAT_SECURITY")
	if text == "" {
		return nil
	}
	found := &Security{}
	Must(json.Unmarshal([]byte(text), found))
	return found
}

// TLS is how a client connects.
func (s *Security) TLS() *tls.Config {
	roots := x509.NewCertPool()
	Check(roots.AppendCertsFromPEM(Try(os.ReadFile(s.CA))), "no certificate in %s", s.CA)
	config := &tls.Config{RootCAs: roots}
	if s.Certificate != "" {
		config.Certificates = []tls.Certificate{Try(tls.LoadX509KeyPair(s.Certificate, s.Key))}
	}
	return config
}

// Token is that of who logs in by one.
func (s *Security) Token() string { return string(Try(os.ReadFile(s.TokenFile))) }
