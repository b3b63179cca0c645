package redis

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-io/stint/internal/testing/await"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

// busy is a client that sends as long as its connection lives, with its replies.
type busy struct {
	*client
	key   string
	told  atomic.Int64
	other []string // replies that are not a count
}

// hear reads replies until the connection ends. If the client waits for replies, it sends the next command after each
// count.
func (b *busy) hear(again func()) {
	for {
		text, err := readReply(b.in)
		if err != nil {
			return
		}
		if n, isCount := strings.CutPrefix(text, ":"); !isCount {
			b.other = append(b.other, text)
		} else if told := b.told.Add(1); n != strconv.FormatInt(told, 10) {
			b.t.Errorf("reply %d is %s", told, n)
		}
		again()
	}
}

// Clients that never pause do not delay a stop. Every counted command was answered, and every refused one was not
// counted.
func TestCloseEndsConnectionsThatAreNeverQuiet(t *testing.T) {
	for name, dial := range map[string]func(*testing.T, *Server) *client{"TCP": dialTCP, "TLS": dialTLS} {
		t.Run(name, func(t *testing.T) { endsBusyConnections(t, dial) })
	}
}

func endsBusyConnections(t *testing.T, dial func(*testing.T, *Server) *client) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	clients := make([]*busy, 8)
	var group sync.WaitGroup
	for i := range clients {
		b := &busy{client: dial(t, s), key: fmt.Sprintf("key%d", i)}
		clients[i] = b
		line := "INCR " + b.key + "\r\n"
		if i%2 == 0 { // sends without waiting for replies
			group.Go(func() { b.hear(func() {}) })
			group.Go(func() {
				for err := error(nil); err == nil; {
					_, err = io.WriteString(b.conn, strings.Repeat(line, 50))
				}
			})
			continue
		}
		io.WriteString(b.conn, line)
		group.Go(func() { b.hear(func() { io.WriteString(b.conn, line) }) })
	}
	for _, b := range clients {
		await.Until(t, "it has a reply", func() bool { return b.told.Load() > 0 })
	}
	patience, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	s.Close(patience)
	if patience.Err() != nil {
		t.Error("Close lasted its whole patience")
	}
	group.Wait()
	for _, b := range clients {
		if counted := w.countOf(b.key); counted != b.told.Load() {
			t.Errorf("%s: %d counted, %d told", b.key, counted, b.told.Load())
		}
		for _, text := range b.other {
			if text != strings.TrimSpace(string(stoppingReply)) {
				t.Errorf("%s: %s", b.key, text)
			}
		}
	}
}

// countOf returns the value of a counter, without a server.
func (w *world) countOf(key string) int64 {
	results := w.Submit(context.Background(), shard.Of(slot.Even(w.shards), shard.DefaultNamespace, key),
		[]shard.Request{
			{Op: shard.ReadTally, Namespace: shard.DefaultNamespace,
				Entries: []shard.Entry{{Key: key, Limits: shard.TallyLimits}}}})
	if err := results[0].Err; err != nil {
		w.t.Errorf("%s: %v", key, err)
		return -1
	}
	return results[0].Decision.Tallied.Value
}

// A late command, even an incomplete one, is answered that it was not counted, after the replies to earlier commands.
// The connection ends in order, although some input was never read.
func TestACommandThatComesTooLateIsRefusedBehindTheOthers(t *testing.T) {
	w := newWorld(t)
	key := keyOn(w, 0)
	w.stuck[0] = make(chan struct{})
	s, _ := serve(t, w, nil)
	c := dialTCP(t, s)
	c.send("INCR " + key + "\r\n")
	l := s.queues.of(0)
	await.Until(t, "a call is under way", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.calls > 0 })
	s.refusing.Store(true)                                                    // as Close does after a moment
	c.send("INCR " + key + "\r\nPING\r\n" + strings.Repeat("x", 4*readBytes)) // more than is read at once
	close(w.stuck[0])
	if got := c.reply(); got != ":1" {
		t.Errorf("what came in time: %s", got)
	}
	for _, what := range []string{"INCR", "PING", "a command that is not whole"} {
		if got := c.reply(); !strings.HasPrefix(got, "-TRYAGAIN the node is stopping; nothing was counted") {
			t.Errorf("%s: %s", what, got)
		}
	}
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("the connection ends with %v", err)
	}
	if got := w.countOf(key); got != 1 {
		t.Errorf("counted %d", got)
	}
}
