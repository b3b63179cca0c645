package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/stint-io/stint/cluster/placement"
)

// asker asks one node. Its goroutine is run; other goroutines only read the results and hand it questions.
type asker struct {
	config  *HealthProbeConfig
	node    string
	dismiss context.CancelFunc // ends run
	wake    chan struct{}      // has room for one: the next question about health is due now
	others  chan otherQuestion // asked between two questions about health
	conn    net.Conn           // of run alone; nil: there is none

	mu      sync.Mutex
	report  placement.Report
	heardAt time.Time     // of report; zero: never
	silent  time.Duration // time without an answer, up to counted; 0 after an answer
	counted time.Time     // when the latest attempt ended; at first, when asking began
	quick   sample        // the latest with a round trip of at most roundTripMax
	slow    sample        // the best of the slower ones
}

// otherQuestion is a question that says nothing about the node's health.
type otherQuestion struct {
	question placement.Question
	answered chan<- otherAnswer // has room
}

type otherAnswer struct {
	report placement.Report
	err    error
}

var errNotConnected = errors.New("cluster: asking: there is no connection with the node")

// run asks until its context ends. It dials again after a connection breaks.
func (a *asker) run(ctx context.Context) {
	defer a.hangUp()
	for {
		report, err := a.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.failed(err)
		} else {
			a.config.OnReport(report)
		}
		if !a.pause(ctx) {
			return
		}
	}
}

// pause waits until the next question about health is due, and asks the others meanwhile. It returns false if its
// context ends.
func (a *asker) pause(ctx context.Context) bool {
	due := time.After(a.config.Every)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due:
			return true
		case <-a.wake:
			return true
		case other := <-a.others:
			report, err := a.exchange(ctx, other.question)
			other.answered <- otherAnswer{report, err}
		}
	}
}

// ask asks about the node's health, over the connection or a new one, and records the report.
func (a *asker) ask(ctx context.Context) (placement.Report, error) {
	if a.conn == nil {
		dialing, cancel := context.WithTimeout(ctx, dialWithin)
		defer cancel()
		conn, err := a.config.Dial(dialing, a.node)
		if err != nil {
			return placement.Report{}, err
		}
		a.conn = conn
	}
	q := a.config.Question()
	asked := a.config.Now()
	report, err := a.exchange(ctx, q)
	if err == nil {
		a.heard(report, asked, a.config.Now())
	}
	return report, err
}

// exchange sends a question over the connection and returns the report of the node. After an error there is no
// connection.
func (a *asker) exchange(ctx context.Context, q placement.Question) (placement.Report, error) {
	conn := a.conn
	if conn == nil {
		return placement.Report{}, errNotConnected
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	report, err := Ask(conn, q)
	if err == nil && report.Node != a.node {
		err = fmt.Errorf("it answers as node %q", report.Node)
	}
	if err != nil {
		a.hangUp()
		return placement.Report{}, err
	}
	return report, nil
}

func (a *asker) hangUp() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

// heard records a report and compares the clocks: the node's clock with ours halfway between question and report.
func (a *asker) heard(report placement.Report, asked, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent > 0 {
		a.config.Logger.Info("a node answers again", "node", a.node, "silent", a.silent)
	}
	a.report, a.heardAt, a.silent, a.counted = report, now, 0, now
	s := sample{roundTrip: now.Sub(asked), asked: asked, at: now}
	s.ahead = clockAhead(report.WallMicros, asked.Add(s.roundTrip/2).UnixMicro())
	switch {
	case s.roundTrip < 0, s.roundTrip > roundTripMost: // our clock went backward, or the measurement is too imprecise
	case s.roundTrip <= roundTripMax:
		a.quick = s
	case !a.slow.isFresh(now) || s.roundTrip <= a.slow.roundTrip:
		a.slow = s
	}
}

// failed records that there was no answer.
func (a *asker) failed(err error) {
	now := a.config.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent == 0 {
		a.config.Logger.Info("a node does not answer; it is asked again", "node", a.node, "error", err)
	}
	a.silent += a.uncounted(now)
	a.counted = now
}

// uncounted returns the silence since it was last counted: at most the duration of one attempt and the wait before it,
// however long this process was paused in between.
func (a *asker) uncounted(now time.Time) time.Duration {
	return max(1, min(now.Sub(a.counted), a.config.Every+dialWithin+askWithin))
}

// silence returns how long the node has been silent. It is 0 while no more than the usual time has passed since the
// last answer.
func (a *asker) silence(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := a.uncounted(now)
	if a.silent == 0 && since <= 2*a.config.Every {
		return 0
	}
	return a.silent + since
}

func (a *asker) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heardAt = time.Time{}
}

func (a *asker) latest(now time.Time) (placement.Report, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.report, !a.heardAt.IsZero() && now.Sub(a.heardAt) <= freshFor
}
