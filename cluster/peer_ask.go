package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// What an ask connection carries after its preamble: a question, its report, the next question, and so on. Each is a
// length of 4 bytes, big endian, and as many bytes of JSON. Fields that a reader does not know are passed over, so that
// nodes of two versions understand each other.
const (
	maxQuestion = 4 << 10
	maxReport   = 2 << 20 // with the documents of a large cluster in it

	askWithin = 2 * time.Second  // for one question and its report
	askIdle   = 30 * time.Second // until who asks nothing any more is hung up on
)

// Ask puts a question to the node at the other end of a connection of PeerPort.DialAsk, and returns its report. It
// takes 2 s at most. After an error the connection is of no use; the caller closes it. One question at a time.
func Ask(conn net.Conn, q Question) (Report, error) {
	if err := conn.SetDeadline(time.Now().Add(askWithin)); err != nil {
		return Report{}, err
	}
	if err := writeMessage(conn, q, maxQuestion); err != nil {
		return Report{}, fmt.Errorf("cluster: asking: %w", err)
	}
	var report Report
	if err := readMessage(conn, &report, maxReport, func() {}); err != nil {
		return Report{}, fmt.Errorf("cluster: asking: %w", err)
	}
	return report, nil
}

// serveAsk answers the questions of one node until it hangs up, falls silent, or the port is closed.
func (p *PeerPort) serveAsk(conn net.Conn, from string) {
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

func (p *PeerPort) answer(conn net.Conn, from string) error {
	if err := conn.SetDeadline(time.Now().Add(askIdle)); err != nil {
		return err
	}
	var q Question
	hurry := func() { conn.SetDeadline(time.Now().Add(askWithin)) } // if that fails, so does the next read
	if err := readMessage(conn, &q, maxQuestion, hurry); err != nil {
		return err
	}
	report := p.config.Answer(from, q)
	report.Node = p.config.Node
	return writeMessage(conn, report, maxReport)
}

// writeMessage writes one message, in one piece.
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

// readMessage reads one message and not a byte more. It calls begun when the first bytes of it are here. Who claims to
// send much has memory set aside only as it comes.
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
