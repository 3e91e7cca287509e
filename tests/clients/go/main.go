// Typical uses of go-redis: values, transactions, pub/sub, streams. Prints `done` on success.
//
// usage: go-redis PORT
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

// same exits with an error unless got equals want and err is nil.
func same(what string, err error, got, want any) {
	if err != nil || !reflect.DeepEqual(got, want) {
		fmt.Fprintf(os.Stderr, "%s: %v, got %#v, want %#v\n", what, err, got, want)
		os.Exit(1)
	}
}

func values(r *redis.Client) {
	_, err := r.Set(ctx, "k", "v", time.Hour).Result()
	same("SET", err, nil, nil)
	value, err := r.Get(ctx, "k").Result()
	same("GET", err, value, "v")
	_, err = r.Get(ctx, "none").Result()
	same("GET of nothing", nil, errors.Is(err, redis.Nil), true)
	results, err := r.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "n")
		p.IncrBy(ctx, "n", 41)
		return nil
	})
	same("EXEC", err, results[1].(*redis.IntCmd).Val(), int64(42))
	members, err := r.ZRangeWithScores(ctx, "z", 0, -1).Result()
	same("ZRANGE", err, len(members), 0)
}

func next(messages <-chan *redis.Message) redis.Message {
	select {
	case message := <-messages:
		return *message
	case <-time.After(time.Minute):
		same("a message", errors.New("timed out"), nil, nil)
		return redis.Message{}
	}
}

func pubsub(r *redis.Client) {
	subscriber := r.Subscribe(ctx, "news")
	_, err := subscriber.Receive(ctx)
	same("SUBSCRIBE", err, nil, nil)
	same("PSUBSCRIBE", subscriber.PSubscribe(ctx, "n*"), nil, nil)
	_, err = subscriber.Receive(ctx)
	same("its reply", err, nil, nil)
	messages := subscriber.Channel()
	receivers, err := r.Publish(ctx, "news", "hello").Result()
	same("PUBLISH", err, receivers, int64(2))
	same("message", nil, next(messages), redis.Message{Channel: "news", Payload: "hello"})
	same("pmessage", nil, next(messages), redis.Message{Channel: "news", Pattern: "n*", Payload: "hello"})
	const many = 1000
	for i := 0; i < many; i++ {
		r.Publish(ctx, "next", i)
	}
	for i := 0; i < many; i++ {
		same("order", nil, next(messages).Payload, fmt.Sprint(i))
	}
	counts, err := r.PubSubNumSub(ctx, "news", "none").Result()
	same("NUMSUB", err, counts, map[string]int64{"news": 1, "none": 0})
	same("close", subscriber.Close(), nil, nil)
	sharded := r.SSubscribe(ctx, "shard")
	_, err = sharded.Receive(ctx)
	same("SSUBSCRIBE", err, nil, nil)
	receivers, err = r.SPublish(ctx, "shard", "of one").Result()
	same("SPUBLISH", err, receivers, int64(1))
	same("smessage", nil, next(sharded.Channel()).Payload, "of one")
	same("close", sharded.Close(), nil, nil)
}

func streams(r *redis.Client) {
	for n := 1; n <= 5; n++ {
		id, err := r.XAdd(ctx, &redis.XAddArgs{Stream: "s", ID: fmt.Sprintf("%d-0", n), Values: []any{"n", n}}).Result()
		same("XADD", err, id, fmt.Sprintf("%d-0", n))
	}
	entries, err := r.XRangeN(ctx, "s", "(2-0", "+", 1).Result()
	same("XRANGE", err, entries[0].Values, map[string]any{"n": "3"})
	status, err := r.XGroupCreate(ctx, "s", "g", "0").Result()
	same("XGROUP CREATE", err, status, "OK")
	got, err := r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "one", Streams: []string{"s", ">"}, Count: 2}).Result()
	same("XREADGROUP", err, []string{got[0].Messages[0].ID, got[0].Messages[1].ID}, []string{"1-0", "2-0"})
	acknowledged, err := r.XAck(ctx, "s", "g", "1-0").Result()
	same("XACK", err, acknowledged, int64(1))
	pending, err := r.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 10}).Result()
	same("XPENDING", err, []any{len(pending), pending[0].ID, pending[0].Consumer}, []any{1, "2-0", "one"})
	claimed, start, err := r.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "s", Group: "g", Consumer: "two", Start: "0"}).Result()
	same("XAUTOCLAIM", err, []any{len(claimed), claimed[0].ID, start}, []any{1, "2-0", "0-0"})
	info, err := r.XInfoGroups(ctx, "s").Result()
	same("XINFO GROUPS", err, []any{info[0].Name, info[0].Pending, info[0].Lag}, []any{"g", int64(1), int64(3)})

	read := make(chan []redis.XStream)
	go func() {
		got, err := r.XRead(ctx, &redis.XReadArgs{Streams: []string{"t", "$"}, Block: time.Minute}).Result()
		same("XREAD", err, len(got), 1)
		read <- got
	}()
	for {
		blocked, err := r.Info(ctx, "clients").Result()
		same("INFO", err, nil, nil)
		if strings.Contains(blocked, "blocked_clients:1") {
			break
		}
	}
	r.XAdd(ctx, &redis.XAddArgs{Stream: "t", ID: "7-7", Values: []any{"hello", "there"}})
	same("entry read", nil, (<-read)[0].Messages[0].ID, "7-7")
}

func main() {
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		values(r)
		pubsub(r)
		streams(r)
		status, err := r.FlushAll(ctx).Result()
		same("FLUSHALL", err, status, "OK")
	}
	fmt.Println("done")
}
