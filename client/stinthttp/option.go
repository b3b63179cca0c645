package stinthttp

import (
	"net/http"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client/internal/inbound"
)

// Option configures what Limit counts, and how it answers.
type Option func(*limiter)

// Entry counts requests by one policy under the key of each request. Several entries are counted together or not at
// all.
func Entry(policy string, key KeyFunc) Option {
	return func(l *limiter) {
		l.Entries = append(l.Entries, inbound.Entry[*http.Request]{Policy: policy, Key: key})
	}
}

// Part is a named part of a key, as in Part{"account", accountOf}.
type Part struct {
	Name  string
	Value KeyFunc
}

// EntryOf is Entry with a key of several parts, as in "ip=ip:203.0.113.7|account=ann". Their order counts. Different
// lists of values have different keys, whatever text clients send, and none names a parent; the clients in JavaScript
// and Python make the same keys from the same parts. A part without a value is a missing key. EntryOf panics if there
// are no parts, or two with one name.
func EntryOf(policy string, parts ...Part) Option {
	of := make([]inbound.Part[*http.Request], len(parts))
	for i, p := range parts {
		of[i] = inbound.Part[*http.Request]{Name: p.Name, Value: p.Value}
	}
	inbound.CheckParts("stinthttp: EntryOf", policy, of)
	return func(l *limiter) {
		l.Entries = append(l.Entries, inbound.Entry[*http.Request]{Policy: policy, Parts: of})
	}
}

// Namespace sets the namespace of the entries. The default is the client's.
func Namespace(name string) Option { return func(l *limiter) { l.Namespace = name } }

// Cost sets the units that a request spends with each entry, 1 to 2^40. The default is 1. An error is answered like a
// missing key.
func Cost(units func(*http.Request) (uint64, error)) Option {
	return func(l *limiter) { l.Cost = units }
}

// Within sets how long a request waits for its decision. The default is 2 s.
func Within(d time.Duration) Option { return func(l *limiter) { l.Within = d } }

// FailClosed answers 503 if there is no decision in time. It is the default: the option makes it explicit.
func FailClosed(l *limiter) { l.Open = false }

// FailOpen lets a request pass if there is no decision in time, with the header "Stint-Failed: open" in its response.
// It does not let through a request without a key, one that the cluster refuses, which includes new keys without room
// (max_keys), or one of a sender that hung up before the decision.
func FailOpen(l *limiter) { l.Open = true }

// OnDenied answers denied requests in place of Denied. The headers of the policies are set when it is called; the
// status is not written.
func OnDenied(answer func(http.ResponseWriter, *http.Request, *stintv1.Decision)) Option {
	return func(l *limiter) { l.denied = answer }
}

// WithoutIDs sends requests without idempotency ids. The nodes then repeat the denials of a policy with deny_cache
// without asking the owner, as is necessary in a flood. A request that may have been counted is not retried, and has no
// decision.
func WithoutIDs(l *limiter) { l.NoIDs = true }

// OnError answers requests that have no key (ErrNoKey) or no decision (*client.Error), in place of Failed. With
// FailOpen it is also called for each request that passes without a decision, for logging: w is nil then.
func OnError(answer func(w http.ResponseWriter, r *http.Request, err error)) Option {
	return func(l *limiter) { l.failed = answer }
}
