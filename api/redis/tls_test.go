package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-io/stint/internal/testing/testcert"
)

func TestAPipelineOverTLSIsAnsweredInOrder(t *testing.T) {
	w := newWorld(t)
	s, _ := serve(t, w, nil)
	c := dialTLS(t, s)
	const commands = 3000
	go func() {
		for i := range commands {
			fmt.Fprintf(c.conn, "INCR counter%d\r\n", i%3) // a record each
		}
		io.WriteString(c.conn, strings.Repeat("INCR counter0\r\n", commands)) // and many in one
	}()
	counts := map[string]int{}
	for i := range 2 * commands {
		key := fmt.Sprintf("counter%d", i%3)
		if i >= commands {
			key = "counter0"
		}
		counts[key]++
		if got := c.reply(); got != fmt.Sprintf(":%d", counts[key]) {
			t.Fatalf("reply %d, of %s, is %s and not :%d", i, key, got, counts[key])
		}
	}
}

// halfOpen connects a client that never says a word of its handshake.
func halfOpen(t *testing.T, s *Server) (ours net.Conn) {
	t.Helper()
	files := testcert.New(t).Write(t.TempDir())
	own, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	s.start(tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{own}}))
	return ours
}

func TestAHandshakeThatIsNotFinishedEndsAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, newWorld(t), nil)
		c, began := halfOpen(t, s), time.Now()
		if heard, err := io.ReadAll(c); len(heard) > 0 || err != nil {
			t.Errorf("it hears %q, %v", heard, err)
		}
		if took := time.Since(began); took != handshakeWithin {
			t.Errorf("it held its seat for %v", took)
		}
	})
}

// Neither a client in the middle of its handshake nor one that comes now delays a stop.
func TestAStopWaitsForNoHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, newWorld(t), nil)
		early, began := halfOpen(t, s), time.Now()
		patience, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s.Close(patience)
		late := halfOpen(t, s)
		for _, c := range []net.Conn{early, late} {
			if heard, err := io.ReadAll(c); len(heard) > 0 || err != nil {
				t.Errorf("it hears %q, %v", heard, err)
			}
		}
		if took := time.Since(began); took > quietFor {
			t.Errorf("the stop took %v", took)
		}
	})
}
