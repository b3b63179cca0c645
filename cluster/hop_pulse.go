package cluster

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

var errSilent = errors.New("it has been silent for 2 s")

// pulse is a hop connection that knows whether the other end lives. Both ends send a frame at least every beatEvery. A
// machine that vanished without a word would else be waited for until its callers' deadlines, or TCP's, minutes later.
//
// Silence is counted in beats of our own: a process that was paused has not listened, and does not blame the other.
type pulse struct {
	net.Conn
	heard  atomic.Bool
	missed int // the writer's alone
}

// Read implements net.Conn.
func (p *pulse) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n > 0 && !p.heard.Load() {
		p.heard.Store(true)
	}
	return n, err
}

// alive is asked once every beat.
func (p *pulse) alive() bool {
	p.missed++
	if p.heard.Swap(false) {
		p.missed = 0
	}
	return p.missed < maxMissed
}

// send writes one frame. A peer that does not take it for as long as it may be silent is given up.
func (p *pulse) send(frame []byte) error {
	if err := p.SetWriteDeadline(time.Now().Add(maxMissed * beatEvery)); err != nil {
		return err
	}
	_, err := p.Write(sealFrame(frame))
	return err
}
