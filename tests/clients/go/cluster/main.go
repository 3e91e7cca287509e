// go-redis as a client of a cluster that changes. tests/tests/nodes/clients.rs has the orders that it takes.
//
// usage: go-redis-cluster PORT...
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	workers  = 3
	keys     = 60
	pause    = 10 * time.Millisecond
	patience = 90 * time.Second
	// Lost writes of a worker that it prints.
	reported = 3
)

var (
	ctx      = context.Background()
	strict   atomic.Bool
	over     atomic.Bool
	mutex    sync.Mutex
	failures []string
	errWrong = errors.New("a wrong reply")
)

type worker struct {
	number               int
	redis                *redis.ClusterClient
	rounds, failed, lost atomic.Int64
	acknowledged, sent   map[string]float64
}

func connect() *redis.ClusterClient {
	var nodes []string
	for _, port := range os.Args[1:] {
		nodes = append(nodes, "127.0.0.1:"+port)
	}
	// By default, it takes up to a minute to find the successor of a dead node.
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes, ClusterStateReloadInterval: time.Second})
}

func fail(what string) {
	mutex.Lock()
	defer mutex.Unlock()
	failures = append(failures, what)
}

func (w *worker) run() {
	for !over.Load() {
		if err := w.step(); err == nil {
			w.rounds.Add(1)
		} else {
			w.failed.Add(1)
			if strict.Load() || errors.Is(err, errWrong) {
				fail(fmt.Sprintf("worker %d: %v", w.number, err))
			}
		}
		time.Sleep(pause)
	}
}

func (w *worker) step() error {
	key := fmt.Sprintf("go-redis:%d:%d", w.number, rand.IntN(keys))
	w.sent[key]++
	value := w.sent[key]
	if err := w.redis.ZAddGT(ctx, key, redis.Z{Score: value, Member: "m"}).Err(); err != nil {
		return fmt.Errorf("ZADD: %w", err)
	}
	w.acknowledged[key] = value
	if err := w.check(key); err != nil {
		return fmt.Errorf("ZSCORE: %w", err)
	}
	_, err := w.redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := 0; n < 10; n++ {
			pipe.Set(ctx, fmt.Sprintf("%s:%d", key, n), n, 0)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	return w.otherCommands("{" + key + "}")
}

func (w *worker) otherCommands(tag string) error {
	if err := w.redis.MSet(ctx, tag+"a", 1, tag+"b", 2).Err(); err != nil {
		return fmt.Errorf("MSET: %w", err)
	}
	values, err := w.redis.MGet(ctx, tag+"a", tag+"b").Result()
	if err != nil {
		return fmt.Errorf("MGET: %w", err)
	}
	if fmt.Sprint(values) != "[1 2]" {
		return fmt.Errorf("MGET: %w: %v", errWrong, values)
	}
	value, err := w.redis.Eval(ctx, "return server.call('get', KEYS[1])", []string{tag + "a"}).Text()
	if err != nil {
		return fmt.Errorf("EVAL: %w", err)
	}
	if value != "1" {
		return fmt.Errorf("EVAL: %w: %v", errWrong, value)
	}
	if err := w.redis.SPublish(ctx, tag, "message").Err(); err != nil {
		return fmt.Errorf("SPUBLISH: %w", err)
	}
	return nil
}

func (w *worker) check(key string) error {
	score, err := w.redis.ZScore(ctx, key, "m").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if score < w.acknowledged[key] {
		if w.lost.Add(1) <= reported {
			fmt.Fprintf(os.Stderr, "lost: %s: %v, not %v\n", key, score, w.acknowledged[key])
		}
		w.acknowledged[key] = score
	}
	return nil
}

func settle(all []*worker) {
	end := time.Now().Add(patience)
	for _, w := range all {
		for goal := w.rounds.Load() + 3; w.rounds.Load() < goal; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				fail("no progress")
				return
			}
		}
	}
}

func finish(all []*worker, running *sync.WaitGroup) {
	over.Store(true)
	running.Wait()
	for _, w := range all {
		for key := range w.acknowledged {
			if err := w.check(key); err != nil {
				fail(err.Error())
			}
		}
	}
}

func main() {
	strict.Store(true)
	var running sync.WaitGroup
	var all []*worker
	for number := range workers {
		w := &worker{number: number, redis: connect(), acknowledged: map[string]float64{}, sent: map[string]float64{}}
		all = append(all, w)
		running.Go(w.run)
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		order := input.Text()
		switch order {
		case "strict", "lenient":
			strict.Store(order == "strict")
			fmt.Println("ok")
			continue
		case "settled":
			settle(all)
		default:
			finish(all, &running)
		}
		var rounds, failed, lost int64
		for _, w := range all {
			rounds, failed, lost = rounds+w.rounds.Load(), failed+w.failed.Load(), lost+w.lost.Load()
		}
		mutex.Lock()
		if len(failures) > 0 {
			fmt.Println("failed", strings.ReplaceAll(strings.Join(failures[:min(5, len(failures))], "; "), "\n", " "))
		} else {
			fmt.Println(order, rounds, failed, lost)
		}
		mutex.Unlock()
	}
}
