package actor

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// rules are the policies of a shard: those that its log holds, and those that this node knows of. The sequencer owns
// them.
type rules struct {
	adopted policy.Revision // the batches of the open epoch are evaluated under it; no Set: a newer one goes first
	known   policy.Revision // the newest that this node has heard of; Version 0: none
	parsed  policy.Revision // the newest text of a log that was parsed here
}

// noPolicies are those of the system shard, whose requests need none.
var noPolicies = policy.NewSet(nil)

// learn takes what the node knows to be the newest policies. What is older than something it knew says nothing.
func (r *rules) learn(known *policy.Revision) {
	if known != nil && known.Version > r.known.Version {
		r.known = *known
	}
}

// due reports whether the log is to adopt newer policies than it holds.
func (r *rules) due() bool { return r.known.Version > r.adopted.Version }

// choose finds the policies of a shard whose log holds a version, 0 for none, with its text. When this node knows newer
// ones, what it returns has no Set: they are to be adopted before anything is evaluated. The error says why nothing can
// be evaluated here.
func (r *rules) choose(version uint64, text []byte) (policy.Revision, error) {
	for _, have := range []policy.Revision{r.known, r.parsed} {
		if have.Version == version && version > 0 && bytes.Equal(have.Text, text) {
			return have, nil
		}
	}
	switch {
	case r.known.Version > version:
		return policy.Revision{Version: version}, nil
	case version == 0:
		return policy.Revision{}, errNoPolicies
	}
	set, err := policy.Parse(fmt.Sprint("policies version ", version), text)
	if err != nil {
		return policy.Revision{}, err
	}
	r.parsed = policy.Revision{Version: version, Text: text, Set: set}
	return r.parsed, nil
}

// takeUp begins an epoch that was just opened with the policies that the log held then, as choose does. Without an error
// the epoch is open for requests; with one it has ended.
func (q *sequencer) takeUp(version uint64, text []byte) error {
	if q.config.Policies == nil {
		q.rules.adopted = policy.Revision{Set: noPolicies}
		return nil
	}
	var err error
	if q.rules.adopted, err = q.rules.choose(version, text); err != nil {
		q.close()
	}
	return err
}

// nextAdoption makes the entry by which the log adopts the policies that this node knows: an entry of its own, so what
// comes after it is evaluated under them and what came before was not.
func (q *sequencer) nextAdoption(now limit.Time, wall time.Time) []byte {
	at := q.stamp(now)
	q.rules.adopted = q.rules.known
	puts := []shard.Put{shard.AdoptPut(q.rules.adopted)}
	q.overlay.write(at.Seq, puts)
	q.propose(at, flight{adopts: q.rules.adopted.Version, began: wall})
	q.sumDue--
	return shard.EncodeBatch(at, puts)
}

// readAdopted is what the log holds, as far as this replica has installed it.
func (a *Actor) readAdopted() (version uint64, text []byte) {
	a.replica.View(func(state *shard.State) {
		version, text = shard.Adopted(view{&a.seq.overlay, state, a.config.MaxBytes})
		text = bytes.Clone(text)
	})
	return version, text
}

// mayTakeUp reports whether an epoch would have policies, as far as is known before it opens: an EpochOpen of no use is
// not worth an entry every 100 ms.
func (a *Actor) mayTakeUp() bool {
	if a.config.Policies == nil {
		return true
	}
	a.seq.rules.learn(a.config.Policies())
	version, text := a.readAdopted()
	_, err := a.seq.rules.choose(version, text)
	a.explain(version, err)
	return err == nil
}

// takeUp gives the epoch that has just opened its policies, or ends it.
func (a *Actor) takeUp() {
	version, text := a.readAdopted()
	if err := a.seq.takeUp(version, text); err != nil {
		a.explain(version, err)
		return
	}
	a.tellAdopted(version)
}

// explain says why no epoch can be open for requests; nil: one can.
func (a *Actor) explain(version uint64, err error) {
	switch {
	case err == nil:
		return
	case errors.Is(err, errNoPolicies):
		a.seq.whyClosed = errNoPolicies
		return
	}
	a.seq.whyClosed = errUnreadable
	if a.config.Observer.Unreadable != nil {
		a.alarms.unreadable.raise(a.config.Now(), func() { a.config.Observer.Unreadable(version, err) })
	}
}

func (a *Actor) tellAdopted(version uint64) {
	if a.config.Observer.Adopted != nil && version > 0 {
		a.config.Observer.Adopted(version)
	}
}
