package actor

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// theRevisions are the versions of the policies of every world, by version less one. They agree on every limit that is
// judged. Each policy also has a last limit that never denies; its name tells the version by which a request was
// decided.
var theRevisions = func() (revisions []policy.Revision) {
	for version := uint64(1); version <= 12; version++ {
		text := revisionText(version)
		set, err := policy.Parse("world.yaml", text)
		if err != nil {
			panic(err)
		}
		revisions = append(revisions, policy.Revision{Version: version, Text: text, Set: set})
	}
	return revisions
}()

func marker(version uint64) string { return fmt.Sprint("revision-", version) }

func isMarker(name string) bool { return strings.HasPrefix(name, "revision-") }

func revisionText(version uint64) []byte {
	var b strings.Builder
	fmt.Fprintln(&b, "policies:")
	for _, name := range theNames {
		fmt.Fprintf(&b, "  %s:\n    idempotency_retention: %v\n", name, span(theRetention(name)))
		if l := theLockouts[name]; l != nil {
			fmt.Fprintf(&b, "    lockout: {after: %d, base: %v, factor: %d, max: %v, forgive_after: %v, "+
				"step_down: %v}\n", l.After,
				span(l.Base), l.Factor, span(l.Max), span(l.ForgiveAfter), l.StepDown)
		}
		if hasSink(name) {
			fmt.Fprintf(&b, "    notify: [%s]\n", theSink)
		}
		fmt.Fprintf(&b, "    limits:\n")
		for i, l := range theLimits[name] {
			thresholds := fmt.Sprint(thresholdsOf(l.Quota)) // in brackets
			fmt.Fprintf(&b, "      - {name: limit-%d, quota: %d, thresholds: %s, %s}\n",
				i, l.Quota, strings.ReplaceAll(thresholds, " ", ", "), algorithmText(l))
		}
		fmt.Fprintf(&b, "      - {name: %s, quota: 1000000000, fixed_window: {period: 1ms}}\n", marker(version))
	}
	return []byte(b.String())
}

func span(s limit.Span) time.Duration { return time.Duration(s) * time.Microsecond }

func algorithmText(l limit.Limit) string {
	switch l.Algorithm {
	case limit.Lifetime:
		return "lifetime: {}"
	case limit.Unlimited:
		return "unlimited: {}"
	case limit.FixedWindow:
		return fmt.Sprintf("fixed_window: {period: %v}", span(l.Period))
	case limit.FixedWindowFirstHit:
		return fmt.Sprintf("fixed_window: {period: %v, anchor: first_hit}", span(l.Period))
	case limit.TokenBucket:
		return fmt.Sprintf("token_bucket: {refill: %d, per: %v, initial: %d}", l.Count, span(l.Period), l.Initial)
	case limit.SlidingLog:
		return fmt.Sprintf("sliding_log: {period: %v}", span(l.Period))
	case limit.GCRA:
		return fmt.Sprintf("gcra: {rate: %d, per: %v}", l.Count, span(l.Period))
	case limit.SlidingWindow:
		return fmt.Sprintf("sliding_window: {period: %v}", span(l.Period))
	case limit.SlidingBuckets:
		return fmt.Sprintf("sliding_window: {period: %v, bucket: %v}", span(l.Period), span(l.Bucket))
	}
	panic(l.Algorithm)
}

// publish makes a newer version the newest.
func (w *world) publish() {
	if w.newest < uint64(len(theRevisions)) {
		w.newest++
		w.tellf("version %d of the policies is published", w.newest)
	}
}

// hearPolicies lets a replica learn of a newer version than it knows, possibly the newest.
func (w *world) hearPolicies(r *replica) {
	if r.knows < w.newest {
		r.knows += 1 + w.random.Uint64N(w.newest-r.knows)
	}
}

// known is the replica's Config.Policies.
func (r *replica) known() *policy.Revision {
	if r.knows == 0 {
		return nil
	}
	return &theRevisions[r.knows-1]
}

// adoptedBy returns the policies that a state holds.
func adoptedBy(state *shard.State) (version uint64, text []byte) {
	version, text, _ = shard.Adopted(state)
	return version, text
}

// mayTakeUp reports whether the replica would open an epoch, as far as policies are concerned.
func (w *world) mayTakeUp(r *replica) bool {
	version, text := adoptedBy(r.state)
	_, err := r.seq.rules.choose(version, text)
	if err != nil {
		w.tally.note("no epoch without policies")
	}
	return err == nil
}

// takeUp gives an epoch that has opened its policies.
func (w *world) takeUp(r *replica) error {
	version, text := adoptedBy(r.state)
	if r.seq.rules.known.Version < version {
		w.tally.note("an owner that knew older policies")
	}
	if err := r.seq.takeUp(version, text); err != nil {
		return fmt.Errorf("%v cannot take up version %d of the policies, and knows %d: %w", r, version, r.knows, err)
	}
	return nil
}

// decidedBy checks that the decisions of a batch were made under the version that the log held before it.
func decidedBy(version uint64, d *shard.Decision) error {
	if d.Replayed {
		return nil
	}
	for i := range d.Limits {
		if name := d.Limits[i].Limit; isMarker(name) && name != marker(version) {
			return fmt.Errorf("decided under %s of the policies; the log has adopted %d", name, version)
		}
	}
	return nil
}

// adoptedMore checks the version that the log holds, which must only grow.
func (l *log) adoptedMore(p *proposal) error {
	version, _ := adoptedBy(l.state)
	if version < l.adopted || p.adopts != 0 && version == l.adopted {
		return fmt.Errorf("%v takes the policies from version %d to %d", p, l.adopted, version)
	}
	l.adopted = version
	return nil
}
