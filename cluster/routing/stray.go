package routing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard"
)

// stray is a request that a shard has refused because a slot of it is elsewhere (shard.Moved), or will be soon
// (shard.Spread).
type stray struct {
	request  shard.Request // as it is asked next
	place    int           // in the caller's requests
	numbered bool          // it was refused in a session, so that no copy of it can be denied or counted there any more
	err      *shard.Error
}

// newStray prepares a refused request for being asked elsewhere. In a session, no copy can be counted any more by the
// shard that refused it, so it is new at the next one. With an id it goes on as a copy: a session may have been lost
// before, and the record of the id, which has moved along, tells what became of the first copy. (D2: an attempt with an
// unknown outcome stays with its shard until that has answered.)
func newStray(r *shard.Request, place int, err *shard.Error) stray {
	s := stray{request: *r, place: place, numbered: r.Number != 0, err: err}
	s.request.Session, s.request.Number, s.request.Acked = shard.Session{}, 0, 0
	s.request.Retry = r.Retry && (r.Number == 0 || r.ID != "") //mutant:moved-copy-is-the-first
	return s
}

// trail counts the pointers (shard.Moved) that a request has followed.
type trail struct {
	followed int
	wait     time.Duration // before the latest
}

// next waits before the next pointer is followed: not before the first two, but while a move is given up, each of its
// shards names the other for a moment. It returns false if ctx ends first.
func (t *trail) next(ctx context.Context) bool {
	const atOnce = 2
	if t.followed++; t.followed <= atOnce {
		return true
	}
	t.wait = min(max(2*t.wait, momentLeast), pauseMost)
	return sleep.For(ctx, t.wait)
}

// follow has requests decided that strayed, by the shards of their slots as known now.
func (r *Router) follow(ctx context.Context, strays []stray, results []shard.Result) {
	for trail := (trail{}); len(strays) > 0; {
		if !trail.next(ctx) {
			for i := range strays {
				s := &strays[i]
				results[s.place] = shard.Result{Err: fate(&s.request, errMoving(s.err))}
			}
			return
		}
		strays = r.askElsewhere(ctx, strays, results)
	}
}

// learn notes where a shard has said that a slot is.
func (r *Router) learn(err *shard.Error) {
	table, _ := r.config.Slots()
	r.learned.learn(table, err.Slot, err.To)
}

func errMoving(err *shard.Error) *shard.Error {
	moving := "slots of the request are"
	if err.Code == shard.Moved {
		moving = fmt.Sprintf("slot %d is", err.Slot)
	}
	return &shard.Error{Code: shard.Unavailable, RetryAfter: 100e3,
		Message: moving + " moving between shards; nothing was counted, ask again"}
}

// askElsewhere asks once, and returns the requests that were refused again.
func (r *Router) askElsewhere(ctx context.Context, strays []stray, results []shard.Result) (again []stray) {
	for i := range strays {
		if err := strays[i].err; err.Code == shard.Moved {
			r.learn(err)
		}
	}
	slots, shards, err := r.slots(ctx)
	byShard := make(map[shard.ID][]*stray)
	var group sync.WaitGroup
	for i := range strays {
		s := &strays[i]
		if err != nil {
			results[s.place] = shard.Result{Err: fate(&s.request, err)}
		} else if id, one := shardOfMessage(&s.request, slots, shards); one && s.err.Code == shard.Moved {
			byShard[id] = append(byShard[id], s)
		} else {
			group.Go(func() { results[s.place] = s.across(r.decideAcross(ctx, &s.request, shards)) })
		}
	}
	var mu sync.Mutex
	for id, mine := range byShard {
		group.Go(func() {
			batch := make([]shard.Request, len(mine))
			for i, s := range mine {
				batch[i] = s.request
			}
			answers, refused := r.deliverTo(ctx, r.routeTo(id), batch)
			for i := range answers {
				results[mine[i].place] = answers[i]
			}
			mu.Lock()
			defer mu.Unlock()
			for _, s := range refused {
				s.place = mine[s.place].place
				again = append(again, s)
			}
		})
	}
	group.Wait()
	return again
}

// across corrects the result of a request that went to its slots separately, where an earlier copy may have been
// counted as a whole.
func (s *stray) across(result shard.Result) shard.Result {
	switch {
	case !s.request.Retry:
	case result.Err != nil:
		result.Err = fate(&s.request, result.Err)
	case !result.Decision.Allowed && !s.numbered:
		result = shard.Result{Err: fate(&s.request, errDeniedNow)}
	}
	return result
}
