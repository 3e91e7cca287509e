// TLS sessions of go-redis. tests/tests/tls/libraries.rs has the requests that it reads.
//
// usage: go-redis-tls FOLDER
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	messages = 100
	patience = time.Minute
)

var (
	ctx     = context.Background()
	options redis.Options
	client  *redis.Client
	blocked = regexp.MustCompile(` name=go-redis .* flags=\w*b`)
)

// failure is a result that differs from the expected one.
func failure(what string, err error, got, want any) error {
	if err == nil && reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s: %v, got %#v, want %#v", what, err, got, want)
}

func connect(port, ca, certificate, user, password string) (string, error) {
	if client != nil {
		client.Close()
	}
	file := func(name string) string { return filepath.Join(os.Args[1], name) }
	pem, err := os.ReadFile(file(ca + ".crt"))
	if err != nil {
		return "", err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost"}
	config.RootCAs.AppendCertsFromPEM(pem)
	if certificate != "-" {
		pair, err := tls.LoadX509KeyPair(file(certificate+".crt"), file(certificate+".key"))
		if err != nil {
			return "", err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	options = redis.Options{Addr: "localhost:" + port, TLSConfig: config, MaxRetries: -1}
	if user != "-" {
		options.Username, options.Password = user, password
	}
	own := options
	client = redis.NewClient(&own)
	return client.Do(ctx, "ACL", "WHOAMI").Text()
}

func set(key string) (string, error) {
	return client.Set(ctx, key, "value", 0).Result()
}

func session() (string, error) {
	results, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n := 0; n < 1000; n++ {
			p.RPush(ctx, "go-redis:list", n)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for n, result := range results {
		if err := failure("RPUSH", result.Err(), result.(*redis.IntCmd).Val(), int64(n+1)); err != nil {
			return "", err
		}
	}
	large := strings.Repeat("0123456789abcdef", 65536)
	if err := client.Set(ctx, "go-redis:large", large, 0).Err(); err != nil {
		return "", err
	}
	if got, err := client.Get(ctx, "go-redis:large").Result(); err != nil || got != large {
		return "", fmt.Errorf("GET: %v, %d bytes", err, len(got))
	}
	results, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "go-redis:n")
		p.IncrBy(ctx, "go-redis:n", 41)
		return nil
	})
	if err := failure("EXEC", err, results[1].(*redis.IntCmd).Val(), int64(42)); err != nil {
		return "", err
	}
	if err := errors.Join(subscribe(), block()); err != nil {
		return "", err
	}
	return "OK", client.Del(ctx, "go-redis:list", "go-redis:large", "go-redis:n").Err()
}

func subscribe() error {
	subscriber := client.Subscribe(ctx, "go-redis")
	defer subscriber.Close()
	if _, err := subscriber.Receive(ctx); err != nil {
		return err
	}
	received := subscriber.Channel()
	for n := 0; n < messages; n++ {
		receivers, err := client.Publish(ctx, "go-redis", n).Result()
		if err := failure("PUBLISH", err, receivers, int64(1)); err != nil {
			return err
		}
	}
	for n := 0; n < messages; n++ {
		select {
		case message := <-received:
			if err := failure("message", nil, message.Payload, fmt.Sprint(n)); err != nil {
				return err
			}
		case <-time.After(patience):
			return fmt.Errorf("no message %d", n)
		}
	}
	return nil
}

func block() error {
	own := options
	own.ClientName = "go-redis"
	waiter := redis.NewClient(&own)
	defer waiter.Close()
	popped := make(chan error, 1)
	go func() {
		got, err := waiter.BLPop(ctx, patience, "go-redis:queue").Result()
		popped <- failure("BLPOP", err, got, []string{"go-redis:queue", "element"})
	}()
	for {
		clients, err := client.ClientList(ctx).Result()
		if err != nil {
			return err
		}
		if blocked.MatchString(clients) {
			break
		}
	}
	if err := client.RPush(ctx, "go-redis:queue", "element").Err(); err != nil {
		return err
	}
	return <-popped
}

// again repeats a command that may fail on connections that the server's end has broken.
func again() (string, error) {
	for end := time.Now().Add(patience); ; {
		reply, err := set("again")
		if err == nil || time.Now().After(end) {
			return reply, err
		}
	}
}

func answer(line string) (string, error) {
	words := strings.Fields(line)
	switch words[0] {
	case "connect":
		return connect(words[1], words[2], words[3], words[4], words[5])
	case "set":
		return set(words[1])
	case "session":
		return session()
	case "again":
		return again()
	}
	return "", errors.New("unknown request")
}

func main() {
	time.AfterFunc(3*patience, func() { panic("timed out") })
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		reply, err := answer(lines.Text())
		if err != nil {
			reply = fmt.Sprintf("error %T %v", err, err)
		}
		fmt.Println(strings.Join(strings.Fields(reply), " "))
	}
}
