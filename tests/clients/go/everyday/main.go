// An application's use of go-redis: prints each part that has passed. table.py has the arguments.
//
// usage: everyday-go-redis PORT TLS_PORT CA CLUSTER_PORT
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	local  = "127.0.0.1:" + os.Args[1]
	client = redis.NewClient(&redis.Options{Addr: local})
)

// must exits with an error unless err is nil and the condition holds.
func must(what string, err error, is bool) {
	if err != nil || !is {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func until(what string, isReached func() bool) {
	for end := time.Now().Add(time.Minute); !isReached(); time.Sleep(10 * time.Millisecond) {
		must(what, nil, time.Now().Before(end))
	}
}

func pool() {
	small := redis.NewClient(&redis.Options{Addr: local, PoolSize: 4, PoolTimeout: time.Minute})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				must("INCR", small.Incr(ctx, "pool").Err(), true)
			}
		})
	}
	all.Wait()
	count, err := small.Get(ctx, "pool").Int()
	must("the count", err, count == 3200)
	must("close", small.Close(), true)
}

func pipeline() {
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range 5000 {
			pipe.Set(ctx, fmt.Sprint("pipe:", n), n, 0)
		}
		return nil
	})
	must("pipeline", err, len(replies) == 5000)
}

func transaction() {
	client.Set(ctx, "account", 10, 0)
	runs := 0
	spend := func(tx *redis.Tx) error {
		left, err := tx.Get(ctx, "account").Int()
		must("GET", err, true)
		// The first try fails: another client changes the watched key.
		if runs++; runs == 1 {
			client.Set(ctx, "account", 5, 0)
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "account", left-1, 0).Err()
		})
		return err
	}
	must("a watched key that changed", nil, errors.Is(client.Watch(ctx, spend, "account"), redis.TxFailedErr))
	must("a watched key", client.Watch(ctx, spend, "account"), true)
	left, err := client.Get(ctx, "account").Int()
	must("the account", err, left == 4)
}

func blockingPop() {
	popped := make(chan []string)
	go func() {
		reply, err := client.BLPop(ctx, time.Minute, "jobs").Result()
		must("BLPOP", err, true)
		popped <- reply
	}()
	until("blocked", func() bool { return strings.Contains(client.Info(ctx, "clients").Val(), "blocked_clients:1") })
	client.RPush(ctx, "jobs", "work")
	must("BLPOP", nil, fmt.Sprint(<-popped) == "[jobs work]")
}

func reconnection() {
	victim := redis.NewClient(&redis.Options{Addr: local, PoolSize: 1})
	for range 20 {
		id, err := victim.ClientID(ctx).Result()
		must("CLIENT ID", err, true)
		killed, err := client.ClientKillByFilter(ctx, "ID", strconv.FormatInt(id, 10)).Result()
		must("CLIENT KILL", err, killed == 1)
		must("INCR after a kill", victim.Incr(ctx, "n").Err(), true)
	}
	n, err := victim.Get(ctx, "n").Int()
	must("n", err, n == 20)
}

func lostSubscription() {
	subscriber := client.Subscribe(ctx, "news")
	_, err := subscriber.Receive(ctx)
	must("SUBSCRIBE", err, true)
	messages := subscriber.Channel()
	client.ClientKillByFilter(ctx, "TYPE", "pubsub")
	// It subscribes again by itself.
	until("the subscription", func() bool { return client.Publish(ctx, "news", "two").Val() == 1 })
	must("the message", nil, (<-messages).Payload == "two")
	must("close", subscriber.Close(), true)
}

func streams() {
	for n := range 100 {
		must("XADD", client.XAdd(ctx, &redis.XAddArgs{Stream: "events", MaxLen: 1000, Approx: true, Values: []any{"n", n}}).Err(), true)
	}
	must("XGROUP CREATE", client.XGroupCreate(ctx, "events", "workers", "0").Err(), true)
	for seen := 0; seen < 100; {
		batch, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "workers", Consumer: "w1", Streams: []string{"events", ">"}, Count: 16,
		}).Result()
		must("XREADGROUP", err, true)
		for _, entry := range batch[0].Messages {
			must("the order", nil, entry.Values["n"] == fmt.Sprint(seen))
			must("XACK", client.XAck(ctx, "events", "workers", entry.ID).Err(), true)
			seen++
		}
	}
	pending, err := client.XPending(ctx, "events", "workers").Result()
	must("XPENDING", err, pending.Count == 0)
}

func scripts() {
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	sum, err := add.Run(ctx, client, []string{"script"}, 2).Int()
	must("a script", err, sum == 2)
	// NOSCRIPT: the library sends the script.
	must("SCRIPT FLUSH", client.ScriptFlush(ctx).Err(), true)
	sum, err = add.Run(ctx, client, []string{"script"}, 3).Int()
	must("a flushed script", err, sum == 5)
}

func secure() {
	authority, err := os.ReadFile(os.Args[3])
	must("the authority", err, true)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := redis.NewClient(&redis.Options{Addr: "localhost:" + os.Args[2], TLSConfig: &tls.Config{RootCAs: roots}})
	must("SET", client.Set(ctx, "tls", strings.Repeat("x", 1_000_000), 0).Err(), true)
	length, err := client.StrLen(ctx, "tls").Result()
	must("STRLEN", err, length == 1_000_000)
}

func cluster() {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + os.Args[4]}})
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range 100 {
			pipe.Set(ctx, fmt.Sprint("key:", n), n, 0)
		}
		return nil
	})
	must("pipeline", err, true)
	n, err := client.Get(ctx, "key:99").Int()
	must("GET", err, n == 99)
}

func main() {
	parts := []struct {
		name string
		run  func()
	}{
		{"pool", pool}, {"pipeline", pipeline}, {"transaction", transaction}, {"blocking pop", blockingPop},
		{"reconnection", reconnection}, {"lost subscription", lostSubscription}, {"streams", streams},
		{"scripts", scripts}, {"TLS", secure}, {"cluster", cluster},
	}
	for _, part := range parts {
		part.run()
		fmt.Println(part.name)
	}
	fmt.Println("done")
}
