package actor

import (
	"sync/atomic"

	"github.com/stint-io/stint/shard"
)

// load is the room that requests take. The bytes are an estimate (weigh), made once, so that what enters also leaves.
type load struct{ requests, bytes int64 }

// Estimates in bytes, in addition to strings: of a request with its result, of an entry, of a limit within an entry,
// and of a limit's status in a leg of an operation.
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
			if o.Excess != nil {
				bytes += len(o.Excess.ID) + weighLegs(o.Excess.Legs)
			}
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

// admission bounds the requests that were submitted and are still held: in the mailbox, in the queue or under way. It
// may be used by any number of goroutines. A call leaves when the loop releases it, not when its caller gives up:
// otherwise such callers would fill the queue without bound (R20).
type admission struct {
	most            load
	requests, bytes atomic.Int64 // held; too many for a moment, while a call that does not fit is refused
}

// enter reports whether there was room. Calls that give units back may use an eighth more.
func (r *admission) enter(l load, at queueClass) bool {
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

func (r *admission) leave(l load) {
	r.requests.Add(-l.requests)
	r.bytes.Add(-l.bytes)
}
