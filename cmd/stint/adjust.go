package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// byHand has the flags of every command that changes a key by hand.
type byHand struct {
	Note  string `help:"Why, for the audit log."`
	Actor string `help:"Who, for the audit log." env:"STINT_ACTOR,USER"`
	ID    string `help:"Idempotency id: asked again with it, the same request is done once."`
}

type adjustCommand struct {
	target
	Action string `arg:"" optional:"" name:"action" help:"reset: nothing is used, and failures and lockout are cleared; holds, an override and a block by hand stay. set N: N units are used. add N: N more are; add -5 takes 5 away. block DURATION or TIME: deny everything until then. unblock: end every block, and clear failures and lockout." enum:"reset,set,add,block,unblock," default:""`
	Value  string `arg:"" optional:"" help:"Of set, add and block."`
	Limit  string `help:"Only this limit of the policy."`
	byHand
	asking
}

// Run adjusts a key and prints its state.
func (c *adjustCommand) Run(s streams) error {
	request := &stintv1.AdjustRequest{
		Namespace:     c.Namespace,
		Policy:        c.Policy,
		Key:           c.Key,
		Limit:         c.Limit,
		Note:          c.Note,
		IdempotencyId: c.ID,
	}
	if err := c.setOp(request); err != nil {
		return err
	}
	return asked(s, c.asking.as(c.Actor), "adjust "+c.String(), maybeDone, c.limits().Adjust, request,
		func(s streams, m *stintv1.AdjustResponse) { printChanged(s, m.Limits, m.Leases, nil) })
}

// negativeLast accepts a negative number without quoting: the parser would take the -5 of "add -5" for flags. The
// number is the last argument of adjust and of usage correct, so it may follow the flags and the -- that ends them.
func negativeLast(args []string) []string {
	corrects := len(args) > 1 && args[0] == "usage" && args[1] == "correct"
	if len(args) == 0 || args[0] != "adjust" && !corrects || slices.Contains(args, "--") {
		return args
	}
	at := slices.IndexFunc(args, func(arg string) bool {
		return len(arg) > 1 && arg[0] == '-' && strings.Trim(arg[1:], "0123456789") == ""
	})
	if at < 1 || corrects && strings.HasPrefix(args[at-1], "--") || !corrects && args[at-1] != "add" &&
		args[at-1] != "set" {
		return args
	}
	return slices.Concat(args[:at], args[at+1:], []string{"--", args[at]})
}

// setOp sets the operation from the action and its value.
func (c *adjustCommand) setOp(m *stintv1.AdjustRequest) error {
	takes := c.Action == "set" || c.Action == "add" || c.Action == "block"
	switch {
	case c.Action == "":
		return usagef("adjust: say what to do: reset, set, add, block or unblock")
	case takes && c.Value == "":
		return usagef("adjust: %s needs a value, as in %s", c.Action, map[string]string{"set": "set 5", "add": "add 5",
			"block": "block 2h"}[c.Action])
	case !takes && c.Value != "":
		return usagef("adjust: %s takes no value: %s", c.Action, c.Value)
	}
	switch c.Action {
	case "reset":
		m.Op = &stintv1.AdjustRequest_Reset_{Reset_: &stintv1.Reset{}}
	case "unblock":
		m.Op = &stintv1.AdjustRequest_Unblock{Unblock: &stintv1.Unblock{}}
	case "set":
		used, err := strconv.ParseUint(c.Value, 10, 64)
		if err != nil {
			return usagef("adjust: set %s: is no number of units", c.Value)
		}
		m.Op = &stintv1.AdjustRequest_SetUsed{SetUsed: used}
	case "add":
		units, err := strconv.ParseInt(c.Value, 10, 64)
		if err != nil {
			return usagef("adjust: add %s: is no number of units", c.Value)
		}
		m.Op = &stintv1.AdjustRequest_AddUsed{AddUsed: units}
	case "block":
		until, err := c.untilOf(c.target, c.Value)
		if err != nil {
			return err
		}
		m.Op = &stintv1.AdjustRequest_BlockUntil{BlockUntil: until}
	}
	return nil
}

// untilOf reads an instant, or a duration that begins now. Now is the time of the key's shard, with which the end is
// compared: this machine's clock may be wrong.
func (r remote) untilOf(t target, text string) (*timestamppb.Timestamp, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return timestamppb.New(at), nil
	}
	length, err := policy.ParseDuration(text)
	if err != nil || length <= 0 {
		return nil, usagef("%s: is no duration, as 2h or 90d, and no time, as 2030-01-01T00:00:00Z", text)
	}
	now, err := r.get(t.get())
	if err != nil {
		return nil, err
	}
	return timestamppb.New(now.At.AsTime().Add(length)), nil
}
