package hop

import (
	"bufio"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

var errSilent = errors.New("it has been silent for 2 s")

// heartbeat is a hop connection that detects a dead peer. Both ends send a frame at least every beatEvery. Without
// these beats, a machine that vanished silently would be noticed only at its callers' deadlines, or at TCP's timeout
// minutes later.
//
// Silence is counted in our own beats, so a process that was paused and could not listen does not blame the peer.
type heartbeat struct {
	net.Conn
	heard  atomic.Bool // bytes have come since the last beat
	missed int         // beats in a row without bytes between them; used by the writer only
}

// Read implements net.Conn.
func (p *heartbeat) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 && !p.heard.Load() {
		p.heard.Store(true)
	}
	return n, err
}

// alive reports whether the peer is still heard. The writer calls it once per beat.
func (p *heartbeat) alive() bool {
	p.missed++
	if p.heard.Swap(false) {
		p.missed = 0
	}
	return p.missed < maxMissed
}

// send seals and writes one frame. It fails if the peer does not take the frame within maxMissed beats.
func (p *heartbeat) send(frame []byte) error {
	if err := p.SetWriteDeadline(time.Now().Add(maxMissed * beatEvery)); err != nil {
		return err
	}
	_, err := p.Write(sealFrame(frame))
	return err
}

// frames passes on the received frames until the connection ends or take fails, and returns the reason. The records are
// valid until take returns.
func (p *heartbeat) frames(take func(kind frameKind, records []byte) error) error {
	in := bufio.NewReaderSize(p, 64<<10)
	var buffer []byte
	for {
		kind, records, next, err := readFrame(in, buffer)
		if err == nil {
			err = take(kind, records)
		}
		if err != nil {
			return err
		}
		buffer = next
	}
}

// write sends the frames that gather makes whenever it is woken, and beats with empty ones of this kind, until the end.
func (p *heartbeat) write(kind frameKind, end, wake <-chan struct{}, gather func(frame []byte) []byte) error {
	beat := time.Tick(beatEvery)
	var frame []byte
	for {
		select {
		case <-end:
			return nil
		case <-beat:
			if !p.alive() {
				return errSilent
			}
			frame = beginFrame(frame, kind)
		case <-wake:
			// Callers woken by one frame of answers are about to ask again, and other calls of one frame are about to
			// be answered: let them, and send what comes together.
			runtime.Gosched()
			if frame = gather(frame); len(frame) == frameHead+1 {
				continue // all calls were given up
			}
		}
		if err := p.send(frame); err != nil {
			return err
		}
	}
}
