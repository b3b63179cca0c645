package inbound

import (
	"context"
	"errors"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/client"
)

// Calls counts the calls of an RPC server. C is the part of a call that a KeyFunc sees. It must not be changed while it
// is used.
type Calls[C any] struct {
	Limiter[Incoming[C]]

	Failed func(context.Context, error) // receives each call without a key or a decision, even if it passes; never nil
}

// Incoming is a call with its context.
type Incoming[C any] struct {
	Ctx  context.Context
	Call C
}

// NewCalls applies options. It panics if they name no Entry, because that would limit nothing; what names the caller.
func NewCalls[C any, Option ~func(*Calls[C])](what string, limits Checker, options []Option) *Calls[C] {
	l := &Calls[C]{Limiter: Limiter[Incoming[C]]{Limits: limits, Within: Within},
		Failed: func(context.Context, error) {}}
	for _, o := range options {
		o(l)
	}
	if len(l.Entries) == 0 {
		panic(what + ": no Entry says what to count")
	}
	return l
}

// Count adds an entry.
func (l *Calls[C]) Count(policy string, key func(context.Context, C) (string, error)) {
	l.Entries = append(l.Entries, Entry[Incoming[C]]{Policy: policy, Key: func(in Incoming[C]) (string, error) {
		return key(in.Ctx, in.Call)
	}})
}

// CountParts adds an entry with a key of several parts.
func (l *Calls[C]) CountParts(what, policy string, parts []Part[Incoming[C]]) {
	CheckParts(what, policy, parts)
	l.Entries = append(l.Entries, Entry[Incoming[C]]{Policy: policy, Parts: parts})
}

// PartOf returns a part with a value that depends on a call and its context.
func PartOf[C any](name string, value func(context.Context, C) (string, error)) Part[Incoming[C]] {
	if value == nil {
		return Part[Incoming[C]]{Name: name}
	}
	return Part[Incoming[C]]{name, func(in Incoming[C]) (string, error) { return value(in.Ctx, in.Call) }}
}

// Refusal is why a call is not carried out. Err is for the caller, without the cluster's error text.
type Refusal struct {
	Why
	Err error
}

// Why is a kind of refusal. Each protocol has a code for each.
type Why uint8

const (
	Denied   Why = iota // by the decision
	NoKey               // the call has no key
	Stranger            // a policy with unknown_key: deny does not know the key
	NoAnswer            // the cluster could not decide
	OurFault            // for instance a policy that does not exist, or a token without the grant
)

// Admit counts a call. If refusal is nil, the call is to be carried out; d is then nil if it passes without a decision.
// A denial comes with its decision.
func (l *Calls[C]) Admit(ctx context.Context, call C) (d *stintv1.Decision, refusal *Refusal) {
	d, passes, err := l.Decide(ctx, Incoming[C]{ctx, call})
	if err != nil {
		l.Failed(ctx, err)
	}
	var failure *client.Error
	switch {
	case passes:
		return nil, nil
	case errors.Is(err, ErrNoKey):
		return nil, &Refusal{NoKey, err}
	case errors.As(err, &failure) && failure.UnknownKey():
		return nil, &Refusal{Stranger, errors.New("the caller is not known")}
	case failure != nil && (failure.NoDecision() || failure.NoRoom()):
		return nil, &Refusal{NoAnswer,
			errors.New("the call was not carried out, since its limits could not be checked: try again")}
	case err != nil:
		return nil, &Refusal{OurFault, errors.New("the limits of the call could not be checked")}
	case d.GetAllowed():
		return d, nil
	case d.GetReason() == "":
		return d, &Refusal{Denied, errors.New("too many requests")}
	}
	return d, &Refusal{Denied, errors.New(d.GetReason())}
}
