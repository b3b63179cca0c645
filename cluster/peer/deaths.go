package peer

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// diesWithin is how long the kernel of a node takes to end all connections of a process that has died, as seen
	// from here.
	diesWithin = 20 * time.Millisecond
	// diesAfter is how long no connection of a node has ended before its death: what ends one by one is ended by a
	// process that lives.
	diesAfter = time.Second
	// refusesWithin is how long the kernel of a node takes to refuse a connection.
	refusesWithin = 50 * time.Millisecond
)

// deaths gathers evidence that the process of another node has died. The kernel below such a process says so at once:
// it ends all its connections. A network, a proxy or a process that lives can do some of that, so a node falls silent
// only when all of this is true: the other side has ended every connection that this node reads from it, with an EOF
// or a reset, all within diesWithin, none of them one by one before; it has not said goodbye; and no connection with
// it has been made since (R10a). Its zero value knows of no node. All methods may be called concurrently.
type deaths struct {
	mu    sync.Mutex
	nodes map[string]*vitals
}

// vitals is what shows whether the process of a node lives.
type vitals struct {
	open    int       // connections that are read here
	first   time.Time // when the first connection of the newest series of ends ended
	last    time.Time // when the last one did
	doubt   bool      // one of them was not ended by the other side
	parting bool      // it has said goodbye
	silent  bool      // it has fallen silent
}

// of returns the vitals of a node. The caller holds mu.
func (d *deaths) of(node string) *vitals {
	if d.nodes == nil {
		d.nodes = make(map[string]*vitals)
	}
	if d.nodes[node] == nil {
		d.nodes[node] = new(vitals)
	}
	return d.nodes[node]
}

// opened notes a new connection with a node, and whether a goroutine here always reads it.
func (d *deaths) opened(node string, read bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.of(node)
	v.silent = false //mutant:dead-though-it-connects
	if read {
		v.open++
	}
}

// ended notes the end of a connection that was read here, and whether the other side ended it. It reports whether the
// node has fallen silent with that.
func (d *deaths) ended(node string, byOther bool) (silent bool) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.of(node)
	if now.Sub(v.last) > diesAfter {
		v.first, v.doubt = now, false
	}
	v.open, v.last = v.open-1, now
	v.doubt = v.doubt || !byOther //mutant:own-end-is-death
	//mutant:dead-while-a-connection-stands //mutant:dead-one-by-one
	v.silent = v.open == 0 && now.Sub(v.first) <= diesWithin && !v.doubt
	return v.silent
}

// parts notes whether a node, which has just asked something, is stopping.
func (d *deaths) parts(node string, stopping bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of(node).parting = stopping
}

// silent reports whether a node has fallen silent without a goodbye, and has not been heard of since.
func (d *deaths) silent(node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.nodes[node]
	return v != nil && v.silent && !v.parting //mutant:dead-after-a-goodbye
}

// IsDead reports whether, by all evidence that this node has, the process of another node has died: it has fallen
// silent without a goodbye (deaths), and now refuses a connection. That takes refusesWithin at most. A broken link
// between the two may look the same: ask others.
func (p *Port) IsDead(node string) bool {
	return p.deaths.silent(node) && p.refuses(node) && p.deaths.silent(node) //mutant:dead-though-it-listens
}

// refuses reports whether a node refuses a connection or ends it at once. A time-out says nothing, and neither does an
// error of this node's own.
func (p *Port) refuses(node string) bool {
	ctx, cancel := context.WithTimeout(p.stopping, refusesWithin)
	defer cancel()
	conn, err := p.DialAsk(ctx, node)
	if err == nil {
		conn.Close()
		return false
	}
	return ctx.Err() == nil && (errors.Is(err, syscall.ECONNREFUSED) || isEnd(err)) //mutant:unreachable-is-dead
}

// isEnd reports whether an error says that the other side has ended a connection.
func isEnd(err error) bool {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}
