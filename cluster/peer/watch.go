package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/observe/decisions"
)

// An ask connection with a Watch as its question carries batches of events after the report, until either end closes
// it. A batch without events is sent when nothing happens, so that both ends learn of one that is gone.
const (
	watchPulse  = 2 * time.Second
	watchSilent = 5 * watchPulse // after this silence the other end is taken for gone
)

// Watch has the node at the other end of a connection from Port.DialAsk send the decisions that the question's filter
// selects. It calls begun once, when the node has agreed, and then each for every batch, also an empty one. It returns
// when the connection ends, or with ErrNoWatch when the node's release sends none. Only one call at a time may use a
// connection, and none after this one.
func Watch(conn net.Conn, q placement.Question, begun func(), each func(*decisions.Batch)) error {
	report, err := Ask(conn, q)
	if err != nil {
		return err
	}
	if !report.Watching {
		return ErrNoWatch
	}
	begun()
	for {
		if err := conn.SetDeadline(time.Now().Add(watchSilent)); err != nil {
			return err
		}
		var batch decisions.Batch
		if err := readMessage(conn, &batch, maxReport, func() {}); err != nil {
			return fmt.Errorf("cluster: watching: %w", err)
		}
		each(&batch)
	}
}

// ErrNoWatch is the error of a node with a release that cannot send its decisions.
var ErrNoWatch = fmt.Errorf("cluster: watching: the node runs a release that cannot send its decisions")

// serveWatch sends the decisions that another node asks for until the connection ends.
func (p *Port) serveWatch(conn net.Conn, q *placement.Question) error {
	events := p.config.Watch(q.Watch)
	defer events.Close()
	ctx, cancel := context.WithCancel(p.stopping)
	defer cancel()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	// Nothing else comes than the end of the connection. At the latest, serveAsk closes it.
	p.goroutines.Go(func() {
		defer cancel()
		io.Copy(io.Discard, conn)
	})
	if err := writeWithin(conn, placement.Report{Node: p.config.Node, Watching: true}); err != nil {
		return err
	}
	pulse := time.Tick(watchPulse)
	for {
		waiting, missed := events.Take()
		for rest := waiting; ; {
			var batch decisions.Batch
			batch.Missed, missed = missed, 0
			batch.Events, rest = decisions.Cut(rest)
			if err := writeWithin(conn, batch); err != nil {
				return err
			}
			if len(rest) == 0 {
				break
			}
		}
		select {
		case <-events.Ready():
		case <-pulse:
		case <-ctx.Done():
			return io.EOF
		}
	}
}

// writeWithin writes a message to a peer that must take it in time.
func writeWithin(conn net.Conn, message any) error {
	if err := conn.SetWriteDeadline(time.Now().Add(watchSilent)); err != nil {
		return err
	}
	return writeMessage(conn, message, maxReport)
}
