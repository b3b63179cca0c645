package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/sleep"
)

// The checks of a limit on a key of the doctor's own.
const (
	oneCount   = "one count"
	retryAfter = "Retry-After"
	expiry     = "expiry"
)

const (
	trialQuota = 5
	trialFirst = 2 * time.Second // the first try's window; a slow cluster gets longer ones
	trialMost  = 32 * time.Second
)

// trial counts a new key against a limit that comes with the requests, through all nodes in turn.
type trial struct {
	entry   *stintv1.Entry
	window  time.Duration     // its length
	ends    time.Time         // of the window, in shard time; zero before the first answer
	through int               // nodes that took part
	denial  *stintv1.Decision // the newest; set once fill has succeeded
}

// errTooSlow means that the window was over before all requests were made.
var errTooSlow = errors.New("the window was over before all requests were made")

// count proves that the nodes count as one, announce exactly when a denied request will be admitted, and forget at that
// instant.
func (d *doctor) count(ctx context.Context) {
	for window := trialFirst; ; window *= 4 {
		t := newTrial(window)
		err := d.fill(ctx, t)
		if errors.Is(err, errTooSlow) && window < trialMost {
			continue
		}
		if err != nil {
			d.uncounted(oneCount, err)
			return
		}
		d.fine(oneCount, "a limit of %d, asked through %s in turn, admitted exactly %d",
			trialQuota, plural(t.through, "node"), trialQuota)
		if t.through == 1 && len(d.Nodes) > 1 {
			d.add(oneCount, Suspect, "only one node could be asked",
				"name addresses in --addr that this machine reaches")
		}
		if d.waits(t) {
			d.expires(ctx, t)
		}
		return
	}
}

// newTrial returns a trial on a key that was never used, with a window that begins at its first unit, so that no edge
// of a clock falls into it.
func newTrial(window time.Duration) *trial {
	quota := uint64(trialQuota)
	return &trial{window: window, entry: &stintv1.Entry{Policy: "stint-doctor", Key: "stint-doctor:" + rand.Text(),
		Limits: []*stintv1.Limit{{Name: "trial", Quota: &quota,
			Algorithm: &stintv1.Limit_FixedWindow{FixedWindow: &stintv1.FixedWindow{
				Period: durationpb.New(window), Anchor: stintv1.Anchor_ANCHOR_FIRST_HIT}}}}}}
}

// miscounted is an error about a wrong count.
type miscounted struct{ error }

func miscountedf(format string, args ...any) error { return miscounted{fmt.Errorf(format, args...)} }

// fill spends the quota through all nodes in turn, and then asks each once more, which must deny. It leaves out nodes
// that cannot be reached.
func (d *doctor) fill(ctx context.Context, t *trial) error {
	answering, asked, spent := d.Nodes, 0, uint64(0)
	for denied := 0; denied < len(answering); asked++ {
		n := answering[asked%len(answering)]
		got, err := d.decide(ctx, n, &stintv1.CheckRequest{Namespace: d.Namespace, Entries: []*stintv1.Entry{t.entry},
			IdempotencyId: fmt.Sprintf("%s-%d", t.entry.Key, asked)})
		if err != nil && asked < len(d.Nodes) && !connect.IsWireError(err) && len(answering) > 1 {
			// It cannot be reached; the check of identities reports it. If it has counted all the same, the next node
			// repeats its answer: the request has an id.
			answering = slices.Delete(slices.Clone(answering), asked%len(answering), asked%len(answering)+1)
			asked--
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name, err)
		}
		if len(got.Limits) != 1 {
			return miscountedf("%s answered about %d limits, and was asked about one", n.Name, len(got.Limits))
		}
		l := got.Limits[0]
		if t.ends.IsZero() {
			t.ends = l.ResetAt.AsTime()
		}
		if !got.DecidedAt.AsTime().Before(t.ends) {
			return errTooSlow
		}
		if got.Allowed {
			spent++
		} else {
			denied, t.denial = denied+1, got
		}
		if want := asked < trialQuota; got.Allowed != want || l.Used != spent {
			return miscountedf("request %d on a limit of %d, through %s: allowed is %v, %d used; expected %v, %d",
				asked+1, trialQuota, n.Name, got.Allowed, l.Used, want, min(asked+1, trialQuota))
		}
	}
	t.through = len(answering)
	return nil
}

// uncounted records why there is no count, or a wrong one.
func (d *doctor) uncounted(check string, err error) {
	var wrong miscounted
	switch code := connect.CodeOf(err); {
	case errors.As(err, &wrong):
		d.add(check, Wrong, err.Error(), "two clusters, or an address that is none of this cluster's? stint tool "+
			"verify looks closer")
	case code == connect.CodePermissionDenied || code == connect.CodeUnauthenticated:
		d.unknown(check, err, "give the token ops=check,inline on keys that begin with stint-doctor:")
	case errors.Is(err, errTooSlow):
		d.add(check, Unknown, fmt.Sprintf("%d requests took longer than %v", trialQuota+len(d.Nodes), trialMost),
			"see stint tool bench")
	default:
		d.add(check, Wrong, err.Error(), "the shard of this key decides nothing: "+
			"see the findings above, and stint status")
	}
}

// waits checks that a denial announces exactly when the window ends, in the answer and in the header, and reports
// whether it does.
func (d *doctor) waits(t *trial) bool {
	wait := t.denial.RetryAfter.AsDuration()
	promised := t.denial.DecidedAt.AsTime().Add(wait)
	header, whole := t.denial.Headers["Retry-After"], strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
	if t.denial.RetryAfter == nil || !promised.Equal(t.ends) || header != whole {
		d.add(retryAfter, Wrong, fmt.Sprintf("a denial says %v and Retry-After: %q, and the window ends %v after it",
			wait, header, t.ends.Sub(t.denial.DecidedAt.AsTime())),
			"is there a proxy between that changes answers? Report it otherwise")
		return false
	}
	d.fine(retryAfter, "a denial says to the microsecond when the window ends (%v), and Retry-After: %s", wait, header)
	return true
}

// expires looks at the key until it is admitted again. The answers carry shard time, so their latency does not matter.
func (d *doctor) expires(ctx context.Context, t *trial) {
	for asked := 0; ; asked++ {
		n := d.Nodes[asked%len(d.Nodes)]
		got, err := d.decide(ctx, n, &stintv1.CheckRequest{Namespace: d.Namespace, Entries: []*stintv1.Entry{t.entry},
			Mode: stintv1.Mode_MODE_PEEK})
		if err != nil && !connect.IsWireError(err) && t.through < len(d.Nodes) && ctx.Err() == nil &&
			asked%len(d.Nodes) != 0 {
			continue // a node that cannot be reached from here
		}
		if err != nil {
			d.unknown(expiry, err, "")
			return
		}
		at := got.DecidedAt.AsTime()
		over := !at.Before(t.ends)
		switch {
		case got.Allowed != over:
			d.add(expiry, Wrong, fmt.Sprintf("%v after the window's end: allowed is %v", at.Sub(t.ends), got.Allowed),
				"report it")
			return
		case over && got.Limits[0].Used != 0:
			d.add(expiry, Wrong, fmt.Sprintf("the window is over, and %d units still count", got.Limits[0].Used),
				"report it")
			return
		case over:
			d.fine(expiry, "denied until its window ended and not after it, by the shard's own clock; "+
				"nothing is left of its count")
			return
		}
		if !sleep.For(ctx, min(t.ends.Sub(at), t.window/4)) {
			d.unknown(expiry, ctx.Err(), "give it longer: --wait")
			return
		}
	}
}
