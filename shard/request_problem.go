package shard

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard/table"
)

// problem refuses values that the API never sends, but that another node might: the arithmetic relies on bounded costs,
// and the log on bounded keys. It runs for every request, and does not scan texts.
func (r *Request) problem() *Error {
	if r.NotAfter > limit.MaxTime {
		return Invalidf("not_after", "is %d: no time that can be told", r.NotAfter)
	}
	if len(r.Namespace)+len(r.ID) > textMost {
		return Invalidf("idempotency_id", "and namespace have %d bytes: at most %d are allowed",
			len(r.Namespace)+len(r.ID), textMost)
	}
	if r.Own < 0 || r.Own > len(r.Entries) {
		return Invalidf("own", "is %d, of %d entries", r.Own, len(r.Entries))
	}
	for i := range r.Entries {
		entry := &r.Entries[i]
		if bytes := len(r.Namespace) + len(entry.Policy) + len(entry.Key); bytes > textMost {
			return Invalidf(fmt.Sprintf("entries[%d].key", i),
				"has %d bytes with namespace and policy: at most %d are allowed", bytes, textMost)
		}
		if entry.Cost > limit.MaxCost && r.Op.spends() || entry.Cost == 0 && r.takes() {
			return Invalidf(fmt.Sprintf("entries[%d].cost", i), "is %d: a request costs 1 to %d units", entry.Cost,
				uint64(limit.MaxCost))
		}
		if bytes := entry.namesBytes(); bytes > textMost {
			return Invalidf(fmt.Sprintf("entries[%d].limits", i),
				"have names of %d bytes with the tier's: at most %d are allowed", bytes, textMost)
		}
	}
	if o := r.Operation; o != nil {
		return o.problem(r.Namespace)
	}
	return nil
}

// termsProblem refuses a request without the parameters of its operation, before anything is looked up.
func (r *Request) termsProblem() *Error {
	switch r.Op {
	case Reserve:
		return holdTermsProblem(r)
	case Settle:
		return settlementProblem(r)
	case Reset, SetUsed, AddUsed, Block, Unblock, PutOverride, DeleteOverride, CorrectUsage:
		return adjustmentProblem(r)
	case Tally, ReadTally:
		return tallyProblem(r)
	case Lease:
		return leaseProblem(r)
	}
	return nil
}

// MessageProblem returns the error of a request that no message can carry, or nil. A reader fails at such a request.
func (r *Request) MessageProblem() *Error {
	switch n := len(r.Entries); {
	case n > MaxEntries || n == 0 && r.Op.needsEntries():
		return Invalidf("entries", "are %d: 1 to %d can be forwarded", n, MaxEntries)
	case mostLimits(r.Entries) > MaxLimits:
		return Invalidf("entries", "bring %d limits at once, of %d at most that can be forwarded",
			mostLimits(r.Entries), MaxLimits)
	case mostCounted(r.Entries) > MaxLimits:
		return Invalidf("entries", "were counted by %d limits, of %d at most that can be forwarded",
			mostCounted(r.Entries), MaxLimits)
	case r.Operation != nil && r.Operation.mostLegs() > MaxEntries:
		return Invalidf("operation", "has more than %d legs, one for each entry", MaxEntries)
	case len(r.Document) > MaxDocumentName:
		return Invalidf("document", "has a name of %d bytes, of %d at most", len(r.Document), MaxDocumentName)
	case len(r.Body) > MaxDocumentBytes:
		return Invalidf("body", "has %d bytes, of %d at most", len(r.Body), MaxDocumentBytes)
	}
	return nil
}

// namesBytes returns the length of the longest name among the entry's inline limits and its tier.
func (e *Entry) namesBytes() int {
	bytes := len(e.Tier)
	for i := range e.Limits {
		bytes = max(bytes, len(e.Limits[i].Name))
	}
	return bytes
}

// textMost bounds the texts in the key of a record, which leaves a few bytes for their lengths.
const textMost = table.MaxKeyBytes - 16

// takes reports whether an entry of the request must cost something. A Check may look at an entry beside those that it
// takes from, and so may the requests that follow from it.
func (r *Request) takes() bool {
	op := r.Op
	if r.Operation != nil && (op == Charge || op == Conclude) {
		op = r.Operation.Op
	}
	return op.spends() && op != Check && op != Peek && op != Settle
}

// problem refuses times that cannot be encoded, and an id that is too long for a record.
func (o *Operation) problem(namespace string) *Error {
	if bytes := len(namespace) + len(o.ID); bytes > textMost {
		return Invalidf("operation.id", "has %d bytes with the namespace: at most %d are allowed", bytes, textMost)
	}
	if o.TTL < 0 || o.TTL > MaxHoldTTL || o.Verdict.Expires < 0 || o.Verdict.Expires > MaxHoldTTL {
		return Invalidf("operation.ttl", "is %d us, and the verdict's %d us: 31 days at most", o.TTL, o.Verdict.Expires)
	}
	if err := legsProblem("operation.legs", o.Legs); err != nil || o.Excess == nil {
		return err
	}
	return legsProblem("operation.excess.legs", o.Excess.Legs)
}

func legsProblem(field string, legs []Leg) *Error {
	for i := range legs {
		if at := legs[i].Decision.DecidedAt; at < 0 || at > limit.MaxTime {
			return Invalidf(fmt.Sprintf("%s[%d].decided_at", field, i), "is %d: no time that can be told", at)
		}
	}
	return nil
}

// keyBytesMax bounds a caller's key, in bytes (R23).
const keyBytesMax = 512

// KeyProblem returns the problem of a caller's key, as text that follows the name of its field, or "" if there is none.
// Evaluate does not check it: the code that makes a Request must.
func KeyProblem(key string) string {
	switch {
	case key == "":
		return "is missing"
	case len(key) > keyBytesMax:
		return fmt.Sprintf("has %d bytes: at most %d are allowed", len(key), keyBytesMax)
	}
	for i, c := range key {
		if c == utf8.RuneError && !strings.HasPrefix(key[i:], "\uFFFD") {
			return fmt.Sprintf("is not valid UTF-8 at byte %d", i)
		}
		if unicode.IsControl(c) {
			return fmt.Sprintf("has the control character %U at byte %d", c, i)
		}
	}
	return ""
}
