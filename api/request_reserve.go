package api

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// holdTTLDefault is the lifetime of a hold if the request names none: 60 s.
const holdTTLDefault = 60 * limit.Span(microsPerSecond)

// reserveRequest translates and validates a reservation.
func reserveRequest(policies *policy.Set, m *stintv1.ReserveRequest) (shard.Request, error) {
	if m.Check == nil {
		return shard.Request{}, shard.Invalidf("check", "is missing: it says what to hold")
	}
	r, err := checkRequest(policies, m.Check)
	if err == nil && r.Op != shard.Check {
		err = shard.Invalidf("mode", "is for a check: a hold is decided as with MODE_ENFORCE")
	}
	if err == nil {
		err = lookProblem(r.Entries)
	}
	if err != nil {
		return shard.Request{}, reserveError(err)
	}
	terms := &shard.HoldTerms{TTL: holdTTLDefault}
	if m.Ttl != nil {
		if terms.TTL, err = ttlOf("ttl", m.Ttl); err != nil {
			return shard.Request{}, err
		}
	}
	switch m.OnExpire {
	case stintv1.OnExpire_ON_EXPIRE_UNSPECIFIED:
	case stintv1.OnExpire_ON_EXPIRE_CANCEL:
		terms.OnExpire = policy.OnExpireCancel
	case stintv1.OnExpire_ON_EXPIRE_COMMIT:
		terms.OnExpire = policy.OnExpireCommit
	default:
		return shard.Request{}, shard.Invalidf("on_expire", "%d is no end of a hold", m.OnExpire)
	}
	r.Op, r.Hold = shard.Reserve, terms
	return r, nil
}

// reserveError gives the field of an error its path in a ReserveRequest.
func reserveError(err error) error {
	return renamedField(err, func(field string) string { return "check." + field })
}

// ttlOf reads the lifetime of a hold.
func ttlOf(field string, d *durationpb.Duration) (limit.Span, error) {
	const longest = time.Duration(shard.MaxHoldTTL) * time.Microsecond
	switch ttl := d.AsDuration(); {
	case d == nil:
		return 0, shard.Invalidf(field, "is missing: how long the hold is to live from now on")
	case d.CheckValid() != nil:
		return 0, shard.Invalidf(field, "is no duration: %s", protoErrorText(d.CheckValid()))
	case ttl <= 0 || ttl > longest:
		return 0, shard.Invalidf(field, "is %v: more than 0 and at most %v are allowed", ttl, longest)
	case ttl%time.Microsecond != 0:
		return 0, shard.Invalidf(field, "must be whole microseconds, not %v", ttl)
	default:
		return limit.Span(ttl.Microseconds()), nil
	}
}
