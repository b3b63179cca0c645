package peer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/stint-io/stint/cluster/placement"
)

// An ask connection carries, after its preamble, a question, its report, the next question, and so on. Each message is
// a 4-byte big-endian length and that many bytes of JSON. Readers ignore unknown fields, so that nodes of two versions
// understand each other.
const (
	maxQuestion = 4 << 10
	maxReport   = 2 << 20 // fits the documents of a large cluster

	askWithin = 2 * time.Second  // for one question and its report
	askIdle   = 30 * time.Second // an idle connection is closed after this time
)

// Ask sends a question to the node at the other end of a connection from Port.DialAsk and returns its report. It
// takes at most 2 s. After an error the connection is unusable, and the caller closes it. Only one call at a time may
// use a connection.
func Ask(conn net.Conn, q placement.Question) (placement.Report, error) {
	if err := conn.SetDeadline(time.Now().Add(askWithin)); err != nil {
		return placement.Report{}, err
	}
	if err := writeMessage(conn, q, maxQuestion); err != nil {
		return placement.Report{}, fmt.Errorf("cluster: asking: %w", err)
	}
	var report placement.Report
	if err := readMessage(conn, &report, maxReport, func() {}); err != nil {
		return placement.Report{}, fmt.Errorf("cluster: asking: %w", err)
	}
	return report, nil
}

// serveAsk answers the questions of one node until the node hangs up, falls silent, or the port is closed.
func (p *Port) serveAsk(conn net.Conn, from string) {
	defer conn.Close()
	for {
		err := p.answer(conn, from)
		if err == nil {
			continue
		}
		if p.stopping.Err() == nil && !errors.Is(err, io.EOF) {
			p.config.Logger.Info("peer port: asking connection ended", "from", from, "error", err)
		}
		return
	}
}

// answer waits for one question, for askIdle, and answers it within askWithin from its beginning. The answer to a Watch
// lasts as long as the connection: answer then always returns an error.
func (p *Port) answer(conn net.Conn, from string) error {
	if err := conn.SetDeadline(time.Now().Add(askIdle)); err != nil {
		return err
	}
	var q placement.Question
	hurry := func() { conn.SetDeadline(time.Now().Add(askWithin)) } // if that fails, so does the next read
	if err := readMessage(conn, &q, maxQuestion, hurry); err != nil {
		return err
	}
	if q.Life != "" { //mutant:any-question-takes-a-goodbye-back
		p.deaths.parts(from, q.Stopping)
	}
	if q.Watch != nil && p.config.Watch != nil && p.config.Listing(from) == Listed {
		return p.serveWatch(conn, &q)
	}
	report := p.config.Answer(from, q)
	report.Node = p.config.Node
	return writeMessage(conn, report, maxReport)
}

// writeMessage writes one message in one piece. It refuses a message longer than most bytes.
func writeMessage(out io.Writer, message any, most int) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(body) > most {
		return fmt.Errorf("a message of %d bytes, more than %d", len(body), most)
	}
	_, err = out.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...))
	return err
}

// readMessage reads one message and not a byte more. It calls begun when the length has arrived. Memory is allocated
// only as data arrives, so a false claim of a large message costs nothing.
func readMessage(in io.Reader, message any, most uint32, begun func()) error {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return err
	}
	begun()
	length := binary.BigEndian.Uint32(head[:])
	if length > most {
		return fmt.Errorf("a message of %d bytes, more than %d", length, most)
	}
	body, err := io.ReadAll(io.LimitReader(in, int64(length)))
	if err != nil {
		return err
	}
	if len(body) < int(length) {
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(body, message)
}
