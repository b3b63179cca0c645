//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/internal/testing/testcluster"
)

func init() { redis.SetLogger(silent{}) }

// silent keeps go-redis from logging every connection that a kill breaks.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// TestRedisCountsThroughKills: clients of the Redis protocol count on shared keys, alone and in pipelines, while owners
// are killed. Every answered INCR is in the count, the count contains nothing that was not sent, and no two INCRs get
// the same number.
func TestRedisCountsThroughKills(t *testing.T) {
	const kills, clients, keys = 4, 12, 5
	c := newClusterWith(t, testcluster.Options{Redis: true})
	count := &tally{told: map[string]map[int64]bool{}, unknown: map[string]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			client := redis.NewClient(&redis.Options{Addr: c.RedisAddr(i % 3), MaxRetries: -1, DialerRetries: 1,
				ReadTimeout: 10 * time.Second})
			defer client.Close()
			for n := 0; ctx.Err() == nil; n++ {
				count.ask(client, i%4*4+1, fmt.Sprint("key", (n+i)%keys))
				pause(ctx, time.Millisecond) // a refused connection must not become a busy loop
			}
		})
	}
	for n := range kills {
		before := count.answered()
		await.Until(t, "commands are counted", func() bool { return count.answered() >= before+1000 })
		owner, err := anOwner(c, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Kill(owner); err != nil {
			t.Fatal(err)
		}
		pause(ctx, 2*time.Second)
		if err := c.Restart(owner); err != nil {
			t.Fatal(err)
		}
		ready(t, c)
	}
	cancel()
	group.Wait()
	reader := redis.NewClient(&redis.Options{Addr: c.RedisAddr(0)})
	defer reader.Close()
	for key, told := range count.told {
		value, err := reader.Get(context.Background(), key).Int64()
		if err != nil || value < int64(len(told)) || value > int64(len(told))+count.unknown[key] {
			t.Errorf("%s is %d (%v); %d answered, %d unknown", key, value, err, len(told), count.unknown[key])
		}
		t.Logf("%s: counted %d, answered %d, unknown %d", key, value, len(told), count.unknown[key])
	}
	if len(count.broken) > 0 {
		t.Errorf("told twice: %v", count.broken)
	}
	t.Logf("refused %d", count.refused)
}

// tally is the answers to the clients.
type tally struct {
	mu      sync.Mutex
	told    map[string]map[int64]bool // the numbers, by key
	unknown map[string]int64
	refused int
	broken  []string
}

// answered returns how many numbers were answered.
func (a *tally) answered() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, told := range a.told {
		n += len(told)
	}
	return n
}

// ask sends a pipeline of INCRs of one key.
func (a *tally) ask(client *redis.Client, times int, key string) {
	commands, _ := client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for range times {
			p.Incr(context.Background(), key)
		}
		return nil
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told[key] == nil {
		a.told[key] = map[int64]bool{}
	}
	for _, command := range commands {
		n, err := command.(*redis.IntCmd).Result()
		var network *net.OpError
		switch {
		case err == nil && a.told[key][n]:
			a.broken = append(a.broken, fmt.Sprint(key, " ", n))
		case err == nil:
			a.told[key][n] = true
		case strings.HasPrefix(err.Error(), "TRYAGAIN "), errors.As(err, &network) && network.Op == "dial":
			a.refused++
		default:
			a.unknown[key]++
		}
	}
}
