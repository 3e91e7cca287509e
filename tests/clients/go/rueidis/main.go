// An application's use of rueidis: prints each part that has passed. table.py has the arguments.
//
// usage: everyday-rueidis PORT TLS_PORT CA CLUSTER_PORT
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

var (
	ctx    = context.Background()
	local  = "127.0.0.1:" + os.Args[1]
	client = connect(rueidis.ClientOption{InitAddress: []string{local}})
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

func connect(option rueidis.ClientOption) rueidis.Client {
	client, err := rueidis.NewClient(option)
	must("connect", err, true)
	return client
}

func do(words ...string) rueidis.RedisResult {
	return client.Do(ctx, client.B().Arbitrary(words...).Build())
}

func concurrentRequests() {
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 200 {
				must("INCR", do("INCR", "pool").Error(), true)
			}
		})
	}
	all.Wait()
	count, err := client.Do(ctx, client.B().Get().Key("pool").Build()).AsInt64()
	must("the count", err, count == 3200)
}

func pipeline() {
	var commands rueidis.Commands
	for n := range 5000 {
		commands = append(commands, client.B().Set().Key(fmt.Sprint("pipe:", n)).Value(strconv.Itoa(n)).Build())
	}
	for _, reply := range client.DoMulti(ctx, commands...) {
		must("SET", reply.Error(), true)
	}
}

func transaction() {
	must("SET", do("SET", "account", "10").Error(), true)
	for run, expected := range []bool{true, false} {
		err := client.Dedicated(func(c rueidis.DedicatedClient) error {
			must("WATCH", c.Do(ctx, c.B().Watch().Key("account").Build()).Error(), true)
			// The first try fails: another client changes the watched key.
			if run == 0 {
				must("SET", do("SET", "account", "5").Error(), true)
			}
			replies := c.DoMulti(ctx, c.B().Multi().Build(), c.B().Decr().Key("account").Build(), c.B().Exec().Build())
			must("EXEC", nil, rueidis.IsRedisNil(replies[2].Error()) == expected)
			return nil
		})
		must("transaction", err, true)
	}
	left, err := client.Do(ctx, client.B().Get().Key("account").Build()).AsInt64()
	must("the account", err, left == 4)
}

func blockingPop() {
	popped := make(chan []string)
	go func() {
		reply, err := client.Do(ctx, client.B().Blpop().Key("jobs").Timeout(60).Build()).AsStrSlice()
		must("BLPOP", err, true)
		popped <- reply
	}()
	until("blocked", func() bool {
		info, err := do("INFO", "clients").ToString()
		return err == nil && strings.Contains(info, "blocked_clients:1")
	})
	must("RPUSH", do("RPUSH", "jobs", "work").Error(), true)
	must("BLPOP", nil, fmt.Sprint(<-popped) == "[jobs work]")
}

func reconnection() {
	// One connection. With more, the library learns of a kill when it uses the killed one again, and CLIENT ID may do that.
	option := rueidis.ClientOption{InitAddress: []string{local}, AlwaysPipelining: true, PipelineMultiplex: -1}
	victim := connect(option)
	for range 20 {
		id, err := victim.Do(ctx, victim.B().ClientId().Build()).AsInt64()
		must("CLIENT ID", err, true)
		killed, err := do("CLIENT", "KILL", "ID", strconv.FormatInt(id, 10)).AsInt64()
		must("CLIENT KILL", err, killed == 1)
		// The library repeats requests that only read.
		must("EXISTS after a kill", victim.Do(ctx, victim.B().Exists().Key("n").Build()).Error(), true)
	}
	victim.Close()
}

func lostSubscription() {
	subscriber := connect(rueidis.ClientOption{InitAddress: []string{local}})
	messages := make(chan string, 1000)
	go func() {
		_ = subscriber.Receive(ctx, subscriber.B().Subscribe().Channel("news").Build(), func(m rueidis.PubSubMessage) {
			messages <- m.Message
		})
	}()
	listens := func() bool {
		count, err := do("PUBLISH", "news", "two").AsInt64()
		return err == nil && count == 1
	}
	until("the subscription", listens)
	<-messages
	must("CLIENT KILL", do("CLIENT", "KILL", "TYPE", "pubsub").Error(), true)
	// It subscribes again by itself.
	until("the next subscription", listens)
	must("the message", nil, <-messages == "two")
	subscriber.Close()
}

func streams() {
	for n := range 100 {
		must("XADD", do("XADD", "events", "MAXLEN", "~", "1000", "*", "n", strconv.Itoa(n)).Error(), true)
	}
	must("XGROUP CREATE", do("XGROUP", "CREATE", "events", "workers", "0").Error(), true)
	for seen := 0; seen < 100; {
		batch, err := do("XREADGROUP", "GROUP", "workers", "w1", "COUNT", "16", "STREAMS", "events", ">").AsXRead()
		must("XREADGROUP", err, true)
		for _, entry := range batch["events"] {
			must("the order", nil, entry.FieldValues["n"] == fmt.Sprint(seen))
			must("XACK", do("XACK", "events", "workers", entry.ID).Error(), true)
			seen++
		}
	}
}

func scripts() {
	add := rueidis.NewLuaScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	sum, err := add.Exec(ctx, client, []string{"script"}, []string{"2"}).AsInt64()
	must("a script", err, sum == 2)
	// NOSCRIPT: the library sends the script.
	must("SCRIPT FLUSH", do("SCRIPT", "FLUSH").Error(), true)
	sum, err = add.Exec(ctx, client, []string{"script"}, []string{"3"}).AsInt64()
	must("a flushed script", err, sum == 5)
}

func caching() {
	get := func() (string, bool) {
		reply := client.DoCache(ctx, client.B().Get().Key("cached").Cache(), time.Hour)
		text, err := reply.ToString()
		must("GET", err, true)
		return text, reply.IsCacheHit()
	}
	must("SET", do("SET", "cached", "old").Error(), true)
	get()
	value, isHit := get()
	must("a cached value", nil, value == "old" && isHit)
	must("SET", do("SET", "cached", "new").Error(), true)
	until("the invalidation", func() bool { value, _ := get(); return value == "new" })
}

func secure() {
	authority, err := os.ReadFile(os.Args[3])
	must("the authority", err, true)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	address := []string{"localhost:" + os.Args[2]}
	client := connect(rueidis.ClientOption{InitAddress: address, TLSConfig: &tls.Config{RootCAs: roots}})
	value := strings.Repeat("x", 1_000_000)
	must("SET", client.Do(ctx, client.B().Set().Key("tls").Value(value).Build()).Error(), true)
	length, err := client.Do(ctx, client.B().Strlen().Key("tls").Build()).AsInt64()
	must("STRLEN", err, length == 1_000_000)
}

func cluster() {
	client := connect(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:" + os.Args[4]}, ShuffleInit: true})
	values := map[string]string{}
	for n := range 100 {
		values[fmt.Sprint("key:", n)] = strconv.Itoa(n)
	}
	for _, err := range rueidis.MSet(client, ctx, values) {
		must("MSET", err, true)
	}
	n, err := client.Do(ctx, client.B().Get().Key("key:99").Build()).AsInt64()
	must("GET", err, n == 99 && client.Mode() == rueidis.ClientModeCluster)
}

func main() {
	parts := []struct {
		name string
		run  func()
	}{
		{"concurrent requests", concurrentRequests}, {"pipeline", pipeline}, {"transaction", transaction},
		{"blocking pop", blockingPop}, {"reconnection", reconnection}, {"lost subscription", lostSubscription},
		{"streams", streams}, {"scripts", scripts}, {"client-side caching", caching}, {"TLS", secure},
		{"cluster", cluster},
	}
	for _, part := range parts {
		part.run()
		fmt.Println(part.name)
	}
	fmt.Println("done")
}
