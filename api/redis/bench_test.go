package redis

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stint-io/stint/shard"
)

// instant answers everything at once.
type instant struct {
	results []shard.Result
	tallied shard.Tallied
}

func (i *instant) Place(context.Context, string, string) (shard.ID, *shard.Error) { return 0, nil }

func (i *instant) Submit(_ context.Context, _ shard.ID, requests []shard.Request) []shard.Result {
	for len(i.results) < len(requests) {
		i.results = append(i.results, shard.Result{Decision: shard.Decision{Allowed: true, Tallied: &i.tallied}})
	}
	return i.results[:len(requests)]
}

func (i *instant) Repeat(*shard.Request, *shard.Decision) bool { return false }

func (i *instant) Decide(ctx context.Context, requests []shard.Request) []shard.Result {
	return i.Submit(ctx, 0, requests)
}

// discard is the client's end of a connection: it sends the same commands again and again and drops the replies.
type discard struct {
	net.Conn
	text []byte
	left *atomic.Int64
	null *os.File
}

func (d *discard) Read(b []byte) (int, error) {
	if d.left.Add(-1) < 0 {
		return 0, io.EOF
	}
	return copy(b, d.text), nil
}

func (d *discard) Close() error { return nil }

func (d *discard) SyscallConn() (syscall.RawConn, error) { return d.null.SyscallConn() }

// BenchmarkRound measures the cost of this package for a pipeline of 16 commands: parse, queue, answer.
func BenchmarkRound(b *testing.B) {
	for name, command := range map[string]string{
		"INCR": array("INCR", "counter"), "CL.THROTTLE": array("CL.THROTTLE", "user:42", "100", "100", "60"),
	} {
		b.Run(name, func(b *testing.B) {
			s := NewServer(completed(Config{Router: &instant{}}))
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer null.Close()
			var left atomic.Int64
			left.Store(int64(b.N))
			c := newConn(s, &discard{text: []byte(strings.Repeat(command, 16)), left: &left, null: null})
			b.ReportAllocs()
			b.ResetTimer()
			c.serve()
			s.queues.calls.Wait()
		})
	}
}
