package verify

import (
	"slices"
	"time"
)

// Result is the result of a run. It is exact if
//
//   - no key admitted more than its limit, and no key was denied while it could not have been full;
//   - every unit was admitted once: no two admissions of a key got the same number;
//   - the final count includes every admission that was answered, and nothing that cannot have been counted;
//   - every admitted id gets the same answer when it is requested again (a sample of 2,000);
//   - the answers of a shard lie in its log, and in its time, in an order that is consistent with what clients saw.
//     Denials that nodes may repeat under a policy's deny_cache are exempt: they may be older by at most that time;
//   - no window of a leased policy admitted more than its limit, and one in which nothing failed no less than 99 % of
//     it;
//   - everything was answered in the end.
type Result struct {
	Exact bool   `json:"exact"`
	Seed  uint64 `json:"seed"`

	Limit       uint64 `json:"limit"`       // of each key; of the first target if there are several
	Admitted    uint64 `json:"admitted"`    // to the key with the most admissions
	Keys        int    `json:"keys"`        // contended keys
	KeysFull    int    `json:"keysFull"`    // keys that admitted all of their limit
	AdmittedAll uint64 `json:"admittedAll"` // to all keys, acknowledged
	Denied      uint64 `json:"denied"`
	Leased      uint64 `json:"leased,omitempty"` // admissions from leases; they are in none of the other counts
	// denials that were certainly copies of earlier ones, as a deny_cache allows
	Repeated uint64 `json:"repeated"`
	// admissions, without an id, that do not contain their unit in the answer
	Unnumbered uint64 `json:"unnumbered"`
	Lost       uint64 `json:"lost"`    // admissions that were answered and then not counted, or forgotten
	Doubled    uint64 `json:"doubled"` // units counted twice

	Seconds    float64 `json:"seconds"`    // of the load
	Operations uint64  `json:"operations"` // that were decided
	// Rate is over more than Seconds: from before the keys are drawn until they are filled up.
	Rate     float64 `json:"operationsPerSecond"`
	Missed   uint64  `json:"missed"`   // operations not answered within their deadline
	Retries  uint64  `json:"retries"`  // attempts after the first
	Resolved uint64  `json:"resolved"` // unknown outcomes that the id resolved in the end
	Unknown  uint64  `json:"unknown"`  // outcomes that stay unknown: without an id
	Replayed int     `json:"replayed"` // ids requested again

	Latency Spread `json:"latencyMicros"`
	// Unavailable are times of at least 100 ms in which a shard answered no operation.
	Unavailable Spread              `json:"unavailableMicros"`
	BackMicros  int64               `json:"backMicros"` // until every shard answered after the faults
	Shards      int                 `json:"shards"`
	Trouble     map[string]*Trouble `json:"trouble,omitempty"`
	Findings    map[string]int      `json:"findings,omitempty"`
	Evidence    []string            `json:"evidence,omitempty"` // the first findings, in words
	Faults      map[string]int      `json:"faults,omitempty"`   // set by the caller that made the faults
	SlotsMoved  int                 `json:"slotsMoved"`         // set by the caller that had them move
}

// Trouble is the number of attempts that ended without a decision, with one code, and the first one's message.
type Trouble struct {
	Attempts int    `json:"attempts"`
	Example  string `json:"example"`
}

// Spread is the distribution of durations, in microseconds.
type Spread struct {
	Count int   `json:"count"`
	P50   int64 `json:"p50"`
	P99   int64 `json:"p99"`
	Worst int64 `json:"worst"`
}

// SpreadOf returns the distribution of values. It sorts them in place.
func SpreadOf(values []int64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	at := func(percent int) int64 { return values[min(len(values)*percent/100, len(values)-1)] }
	return Spread{Count: len(values), P50: at(50), P99: at(99), Worst: values[len(values)-1]}
}

// result sums up, after all workers have ended.
func (r *run) result(lasted time.Duration) *Result {
	c, b := &r.counts, &r.book
	out := &Result{Seed: r.plan.Seed, Limit: r.plan.Targets[0].Quota, Keys: len(r.keys), AdmittedAll: c.admitted.Load(),
		Denied: c.denied.Load(), Seconds: lasted.Seconds(), Missed: c.missed.Load(), Retries: c.retries.Load(),
		Resolved: c.resolved.Load(), Replayed: len(b.replays), Shards: len(r.shards.all()), Trouble: b.codes,
		Evidence: b.evidence, Exact: len(b.count) == 0, Lost: uint64(b.count[forgotten]),
		Doubled: uint64(b.count[doubled])}
	out.Operations = out.AdmittedAll + out.Denied
	out.Rate = float64(out.Operations) / max(r.ended.Sub(r.began).Seconds(), 0.001)
	for _, k := range r.keys {
		out.Admitted = max(out.Admitted, k.acked)
		out.Unknown += k.open
		out.Repeated += k.repeats
		out.Unnumbered += k.unnumbered
		if k.acked >= k.quota {
			out.KeysFull++
		}
	}
	if len(b.count) > 0 {
		out.Findings = map[string]int{}
		for k, n := range b.count {
			out.Findings[string(k)] = n
		}
	}
	for _, l := range r.lessees {
		for _, s := range slices.Concat(l.keys...) {
			if s.Leased {
				out.Leased++
			}
		}
	}
	r.spreads(out)
	return out
}

func (r *run) spreads(out *Result) {
	var gaps []int64
	for _, s := range r.shards.all() {
		for _, gap := range s.gaps {
			gaps = append(gaps, gap.Microseconds())
		}
		out.BackMicros = max(out.BackMicros, s.back.Microseconds())
	}
	out.Latency, out.Unavailable = SpreadOf(slices.Concat(r.latencies...)), SpreadOf(gaps)
}
