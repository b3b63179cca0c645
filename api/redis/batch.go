package redis

import (
	"sync"
	"time"

	"github.com/stint-io/stint/shard"
)

// Bounds on one call, which the owner decides at once and which may be sent to another node at once. One round always
// fits.
const (
	callRequestsMost = 4096
	callBytesMost    = 640 << 10 // of keys and policies, and requestBytes for each request
	requestBytes     = 64
)

// batch is the requests of one call and the rounds that wait for it. It belongs to its queue while it is open, then to
// its call. Requests refer to entries and terms, also to those in an array that has been outgrown since.
type batch struct {
	since    time.Time // when the first request came: the timeout of the call counts from here
	load     load      // of all requests
	requests []shard.Request
	entries  []shard.Entry      // one for each request
	terms    []shard.TallyTerms // one for each tally
	commands []*command         // one for each request
	rounds   []*round           // one for each connection
}

// batches are those that can be used again.
var batches = sync.Pool{New: func() any { return new(batch) }}

// load is the size of waiting requests; bytes as in callBytesMost.
type load struct{ requests, bytes int }

func (l *load) add(more load) {
	l.requests += more.requests
	l.bytes += more.bytes
}

// add adds the request of a command. Its load is added with that of its part.
func (b *batch) add(c *command, followed shard.Trace) {
	e := len(b.entries)
	b.entries = append(b.entries, shard.Entry{Policy: c.policy, Key: c.key, Cost: c.cost, Limits: c.limits})
	request := shard.Request{Op: c.op, Namespace: c.namespace, Entries: b.entries[e : e+1 : e+1],
		Revision: c.revision, Hashed: c.hashed, Trace: followed}
	if c.op == shard.Tally {
		b.terms = append(b.terms, c.terms)
		request.Tally = &b.terms[len(b.terms)-1]
	}
	b.requests = append(b.requests, request)
	b.commands = append(b.commands, c)
}

// repliesAlone is the largest number of rounds that one goroutine hands back. A reply is mostly the kernel's write to a
// socket, and until the last reply is written its client sends no work for the disk.
const repliesAlone = 20

// reply hands the rounds back. Their connections are answered, except those that wait for other calls too.
func (b *batch) reply() {
	if len(b.rounds) <= repliesAlone {
		handBack(b.rounds)
		return
	}
	half := len(b.rounds) / 2
	var other sync.WaitGroup
	other.Go(func() { handBack(b.rounds[:half]) })
	handBack(b.rounds[half:])
	other.Wait()
}

func handBack(rounds []*round) {
	for _, r := range rounds {
		r.partDone()
	}
}

// release gives a batch back for reuse, unless it is unusually large.
func (b *batch) release() {
	const usual = 2048
	if cap(b.requests) > usual {
		return
	}
	clear(b.requests)
	clear(b.entries)
	clear(b.commands)
	clear(b.rounds)
	*b = batch{requests: b.requests[:0], entries: b.entries[:0], terms: b.terms[:0], commands: b.commands[:0],
		rounds: b.rounds[:0]}
	batches.Put(b)
}
