package actor

import (
	"sync/atomic"

	"github.com/stint-io/stint/shard"
)

// load is what requests take of the room.
type load struct{ requests, bytes int64 }

// A guess at what a request, its result and an entry cost beside their strings, what a limit costs that an entry brings
// along, and one that a leg of an operation shows.
const requestBytes, entryBytes, limitBytes, statusBytes = 256, 128, 192, 192

func weigh(requests []shard.Request) load {
	bytes := requestBytes * len(requests)
	for i := range requests {
		r := &requests[i]
		bytes += len(r.Namespace) + len(r.ID) + len(r.Limit) + len(r.Document) + len(r.Body) + entryBytes*len(r.Entries)
		for j := range r.Entries {
			e := &r.Entries[j]
			bytes += len(e.Policy) + len(e.Key) + len(e.Tier) + limitBytes*len(e.Limits)
		}
		if o := r.Operation; o != nil {
			bytes += len(o.ID) + weighLegs(o.Legs) + weighLegs(o.Verdict.Legs)
		}
	}
	return load{int64(len(requests)), int64(bytes)}
}

func weighLegs(legs []shard.Leg) (bytes int) {
	for i := range legs {
		bytes += requestBytes + statusBytes*len(legs[i].Decision.Limits)
	}
	return bytes
}

func (l load) exceeds(most load) bool { return l.requests > most.requests || l.bytes > most.bytes }

// room bounds what was submitted and is still held: in the mailbox, in the queue or under way. It may be used by any
// number of goroutines. Whoever enters leaves when the loop lets go of the call, not when its caller does: callers that
// give up would otherwise fill the queue without bound (SEMANTICS R20).
type room struct {
	most            load
	requests, bytes atomic.Int64
}

// enter reports whether there was room. An eighth more is there for what gives units back.
func (r *room) enter(l load, at lane) bool {
	most := r.most
	if at == settling {
		most = load{most.requests + most.requests/8, most.bytes + most.bytes/8}
	}
	held := load{r.requests.Add(l.requests), r.bytes.Add(l.bytes)}
	if held.exceeds(most) {
		r.leave(l)
		return false
	}
	return true
}

// held is what is in the room now.
func (r *room) held() load { return load{r.requests.Load(), r.bytes.Load()} }

func (r *room) leave(l load) {
	r.requests.Add(-l.requests)
	r.bytes.Add(-l.bytes)
}
