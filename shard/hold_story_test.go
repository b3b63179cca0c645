package shard

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard/codec"
)

// The commands of stories about holds and adjustments, in addition to those of TestTranscripts:
//
//	reserve POLICY/KEY [cost=N] ttl=D [onexpire=cancel|commit] [as=NAME]
//	check ... as=NAME                                 a name for what was taken, until the story's end
//	settle NAME commit [actual=N,N] [overage=debt|reject] | cancel | success | failed | extend ttl=D
//	                                                  the hold of that name, or the refund of the decision
//	reset|set|add POLICY/KEY [limit=NAME] [amount=N]
//	block POLICY/KEY until=T, unblock POLICY/KEY
//	override POLICY/KEY [tier=NAME] [LIMIT.quota=N ...] [until=T], nooverride POLICY/KEY
//	audit POLICY/KEY                                  the newest changes of the shard
//	                                                  and on each change [by=ACTOR] [note=TEXT]
var holdOps = map[string]Op{"reserve": Reserve, "reset": Reset, "set": SetUsed, "add": AddUsed, "block": Block,
	"unblock": Unblock, "override": PutOverride, "nooverride": DeleteOverride, "audit": ReadAudit}

var (
	storyActions = map[string]Action{"commit": ActionCommit, "cancel": ActionCancel, "extend": ActionExtend,
		"success": ActionSuccess, "failed": ActionFailed}
	storyOverages  = map[string]Overage{"": OverageClamp, "debt": OverageDebt, "reject": OverageReject}
	storyOnExpires = map[string]policy.OnExpire{"": policy.OnExpireDefault, "cancel": policy.OnExpireCancel,
		"commit": policy.OnExpireCommit}
)

// completeHold sets the operation's own parameters in a request.
func completeHold(r *Request, words []string) {
	switch r.Op {
	case ReadAudit:
		return
	case Reserve:
		r.Hold = &HoldTerms{TTL: limit.Span(instant(option(words, "ttl")) - origin),
			OnExpire: storyOnExpires[option(words, "onexpire")]}
		return
	}
	if r.Op == Reset && option(words, "by") == "" {
		return // the form of a Reset from before Adjustment existed
	}
	a := &Adjustment{Actor: option(words, "by"), Note: option(words, "note")}
	r.Adjustment = a
	if text := option(words, "amount"); text != "" {
		a.Amount, _ = strconv.ParseInt(text, 10, 64)
	}
	if text := option(words, "until"); text != "" {
		a.Until = instant(text)
	}
	if r.Op == PutOverride {
		a.Override = storyOverride(words)
	}
}

func storyOverride(words []string) *policy.Override {
	o := &policy.Override{Tier: option(words, "tier"), Limits: map[string]policy.TierLimit{}}
	if text := option(words, "until"); text != "" {
		o.Expires = instant(text)
	}
	for _, word := range words {
		if name, value, ok := strings.Cut(word, ".quota="); ok {
			quota := number(value, 0)
			o.Limits[name] = policy.TierLimit{Quota: &quota}
		}
	}
	return o
}

// settlement returns the request of a settle line: the id given to the caller is encoded and decoded again.
func (s *storyteller) settlement(words []string) (Request, bool) {
	if words[0] != "settle" {
		return Request{}, false
	}
	taken, ok := s.taken[words[1]]
	if !ok {
		s.Fatalf("nothing was taken as %q", words[1])
	}
	sealer := NewSealer(1, SealingSecret{1, testSecret})
	r, err := sealer.Open(sealer.Seal(taken.Settlement.Target, taken.Namespace, taken.Entries))
	if err != nil {
		s.Fatal(err)
	}
	r.ID = option(words, "id")
	r.Settlement.Action = storyActions[words[2]]
	r.Settlement.Overage = storyOverages[option(words, "overage")]
	if text := option(words, "ttl"); text != "" {
		r.Settlement.TTL = limit.Span(instant(text) - origin)
	}
	if text := option(words, "actual"); text != "" {
		for _, cost := range strings.Split(text, ",") {
			r.Settlement.Actual = append(r.Settlement.Actual, number(cost, 0))
		}
	}
	return r, true
}

// remember stores what a request took, under a name.
func (s *storyteller) remember(name string, r *Request, d *Decision) {
	if name == "" {
		return
	}
	if s.taken == nil {
		s.taken = make(map[string]Request)
	}
	s.taken[name] = Request{Namespace: r.Namespace, Entries: Taken(r, d), Settlement: &Settlement{
		Target: Target{Hold: r.Op == Reserve, Position: d.Position, Index: d.Index, DecidedAt: d.DecidedAt}}}
}

func (s *storyteller) tellHold(d *Decision) {
	if d.HoldExpires != 0 {
		fmt.Fprintf(&s.out, ", held until %s", clock(d.HoldExpires))
	}
}

func (s *storyteller) tellAudit(d *Decision) {
	for _, a := range d.Answer().Audit {
		s.printf("  %s %s %s %s/%s %s: %s -> %s (%s)", clock(a.At), a.Actor, a.Deed, a.Policy, a.Key, a.Limit,
			a.Before, a.After, a.Note)
	}
}

func held(l *LimitStatus) string {
	if l.Held == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d held)", l.Held)
}

func blocked(l *LimitStatus) (text string) {
	if l.LockoutLevel != 0 {
		text = fmt.Sprintf(", level %d", l.LockoutLevel)
	}
	if l.BlockedUntil != 0 {
		text += ", blocked until " + clock(l.BlockedUntil)
	}
	return text
}

// endOrAudit shows the records of this file's operations.
func endOrAudit(kind byte, p *Put) (string, bool) {
	switch kind {
	case endRecord:
		c := codec.Reader(p.Key[2:]) // after the record kind and the kind of the name
		return fmt.Sprintf("end of %d.%d.%d until %s", numberIn(&c), numberIn(&c), numberIn(&c), clock(p.ForgetAt)),
			true
	case auditRecord:
		return fmt.Sprintf("change %d, kept for ever: %v", p.Key[2], p.ForgetAt == limit.Forever), true
	case auditHeadRecord:
		return fmt.Sprintf("changes, kept for ever: %v", p.ForgetAt == limit.Forever), true
	}
	return "", false
}
