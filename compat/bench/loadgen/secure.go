package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// secure is how connections are made: plain, over TLS, and with a login by SCRAM-SHA-256.
var secure struct {
	config         *tls.Config
	user, password string
}

// secureBy takes what -tls (a file with the CA) and -login (user:password) say.
func secureBy(ca, login string) error {
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", ca)
		}
		secure.config = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	}
	if login != "" {
		user, password, found := strings.Cut(login, ":")
		if !found {
			return fmt.Errorf("-login is user:password")
		}
		secure.user, secure.password = user, password
	}
	return nil
}

func isSecure() bool { return secure.config != nil || secure.user != "" }

// open makes a connection on which requests are served: the handshake and the login are behind it.
func open(address string) (net.Conn, error) {
	var conn net.Conn
	conn, err := net.DialTimeout("tcp", address, 30*time.Second)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		return nil, err
	}
	if secure.config != nil {
		config := secure.config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
		over := tls.Client(conn, config)
		if err := over.Handshake(); err != nil {
			conn.Close()
			return nil, fmt.Errorf("TLS: %w", err)
		}
		conn = over
	}
	if secure.user != "" {
		if err := scram(conn, secure.user, secure.password); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, conn.SetDeadline(time.Time{})
}

// relayed is a descriptor for the loads that drive sockets themselves: what goes through it is encrypted on its way.
func relayed(address string) (int, error) {
	conn, err := open(address)
	if err != nil {
		return 0, err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	for _, fd := range pair {
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 1<<20)
	}
	file := os.NewFile(uintptr(pair[1]), "relay")
	inner, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return 0, err
	}
	go relay(conn, inner)
	go relay(inner, conn)
	return pair[0], nil
}

func relay(to, from net.Conn) {
	buffer := make([]byte, 256<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				err = failed
			}
		}
		if err != nil {
			to.Close()
			from.Close()
			return
		}
	}
}

const (
	apiSaslHandshake    = 17
	apiSaslAuthenticate = 36
)

// scram logs in (RFC 7677) by SaslHandshake and SaslAuthenticate.
func scram(conn net.Conn, user, password string) error {
	c := &client{conn: conn}
	w := request(apiSaslHandshake, 1, false)
	w.str("SCRAM-SHA-256")
	r, err := c.call(w, false, 60*time.Second)
	if err != nil {
		return fmt.Errorf("SaslHandshake: %w", err)
	}
	if code := r.i16(); code != 0 {
		return fmt.Errorf("SaslHandshake: error %d", code)
	}
	random := make([]byte, 18)
	rand.Read(random)
	nonce := base64.StdEncoding.EncodeToString(random)
	bare := "n=" + user + ",r=" + nonce
	first, err := authenticate(c, "n,,"+bare)
	if err != nil {
		return err
	}
	said := map[string]string{}
	for _, part := range strings.Split(first, ",") {
		name, value, _ := strings.Cut(part, "=")
		said[name] = value
	}
	salt, err := base64.StdEncoding.DecodeString(said["s"])
	if err != nil {
		return err
	}
	rounds, err := strconv.Atoi(said["i"])
	if err != nil {
		return err
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, 32)
	if err != nil {
		return err
	}
	key := mac(salted, "Client Key")
	stored := sha256.Sum256(key)
	final := "c=biws,r=" + said["r"]
	signature := mac(stored[:], bare+","+first+","+final)
	for i := range key {
		key[i] ^= signature[i]
	}
	_, err = authenticate(c, final+",p="+base64.StdEncoding.EncodeToString(key))
	return err
}

func authenticate(c *client, token string) (string, error) {
	w := request(apiSaslAuthenticate, 1, false)
	w.bytes([]byte(token))
	r, err := c.call(w, false, 60*time.Second)
	if err != nil {
		return "", fmt.Errorf("SaslAuthenticate: %w", err)
	}
	if code := r.i16(); code != 0 {
		return "", fmt.Errorf("SaslAuthenticate: error %d", code)
	}
	r.str()
	size := int(r.i32())
	return string(r.take(size)), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	io.WriteString(h, text)
	return h.Sum(nil)
}

// logins makes so many connections, one after another on each of some lanes, and asks each for its versions.
type logins struct {
	Load     string  `json:"load"`
	Verified bool    `json:"verified"`
	Count    int     `json:"logins"`
	Refused  int     `json:"refused"`
	Seconds  float64 `json:"seconds"`
}

func manyLogins(address string, count, lanes int) (*logins, error) {
	begin := time.Now()
	turns := make(chan int, count)
	for i := range count {
		turns <- i
	}
	close(turns)
	failed := make(chan error, count)
	for range lanes {
		go func() {
			for range turns {
				conn, err := open(address)
				if err == nil {
					err = asked(conn)
					conn.Close()
				}
				failed <- err
			}
		}()
	}
	res := &logins{Count: count}
	var last error
	for range count {
		if err := <-failed; err != nil {
			res.Refused++
			last = err
		}
	}
	if last != nil {
		fmt.Fprintln(os.Stderr, "loadgen: a login was refused:", last)
	}
	res.Seconds = time.Since(begin).Seconds()
	// how many were refused is a figure
	res.Verified = true
	return res, nil
}

func asked(conn net.Conn) error {
	frame := request(apiAPIVersions, 0, false).finish()
	if _, err := conn.Write(frame); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:])))
	return err
}
