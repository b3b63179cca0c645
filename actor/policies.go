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

// rules are the policies of a shard: those in its log, and those that this node knows. The sequencer owns them.
type rules struct {
	// adopted is for the batches of the open epoch; a nil Set means that a newer revision must be adopted first.
	adopted policy.Revision
	known   policy.Revision // the newest that this node knows; Version 0 if none
	parsed  policy.Revision // the newest text from the log that was parsed here
}

// noPolicies are the policies of the system shard: its requests need none.
var noPolicies = policy.NewSet(nil)

// learn takes the newest policies that the node knows. It ignores a version older than one it knew before.
func (r *rules) learn(known *policy.Revision) {
	if known != nil && known.Version > r.known.Version {
		r.known = *known
	}
}

// due reports whether the log should adopt newer policies than it holds.
func (r *rules) due() bool { return r.known.Version > r.adopted.Version } //mutant:older-policies-adopted

// choose returns the policies of a shard with a version (0 for none) and its text in its log. If this node knows newer
// ones, the returned revision has no Set: the newer ones must be adopted before anything is evaluated. The error gives
// the reason why nothing can be evaluated here.
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
	r.parsed = policy.Revision{Version: version, Text: text, Set: set.At(version)}
	return r.parsed, nil
}

// takeUp begins an epoch that was just opened, with the policies that the log held then (choose). Without an error the
// epoch is open for requests; with an error it has ended.
func (q *sequencer) takeUp(version uint64, text []byte) error {
	if q.config.Policies == nil {
		q.rules.adopted = policy.Revision{Set: noPolicies}
		return nil
	}
	var err error
	if q.rules.adopted, err = q.rules.choose(version, text); err != nil { //mutant:policies-of-an-earlier-epoch
		q.close()
	}
	return err
}

// nextAdoption makes the entry by which the log adopts the policies that this node knows. It is an entry of its own, so
// that only later batches are evaluated under them.
func (q *sequencer) nextAdoption(state *shard.State, now limit.Time, wall time.Time) []byte {
	at := q.stamp(now)
	before := q.rules.adopted.Set
	q.rules.adopted = q.rules.known
	puts := shard.Adopt(state, before, q.rules.adopted, at)
	q.propose(at, flight{began: wall})
	q.sumDue--
	return shard.EncodeBatch(at, puts)
}

// readAdopted returns the policies in the log, as far as this replica has installed it.
func (a *Actor) readAdopted() (version uint64, text []byte, err error) {
	a.replica.View(func(state *shard.State) { version, text, err = shard.Adopted(state) })
	return version, text, err
}

// mayTakeUp reports whether an epoch would have policies, as far as is known before it opens: a useless EpochOpen is
// not worth an entry every 100 ms.
func (a *Actor) mayTakeUp() bool {
	if a.config.Policies == nil {
		return true
	}
	a.seq.rules.learn(a.config.Policies())
	version, text, err := a.readAdopted()
	if err == nil {
		_, err = a.seq.rules.choose(version, text)
	}
	a.explain(version, err)
	return err == nil
}

// takeUp gives the epoch that has just opened its policies, or ends it.
func (a *Actor) takeUp() {
	version, text, err := a.readAdopted()
	if err != nil {
		a.seq.close()
	} else {
		err = a.seq.takeUp(version, text)
	}
	a.explain(version, err)
}

// explain records and reports why no epoch can be open for requests; with a nil error it does nothing.
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
