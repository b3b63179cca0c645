package main

import (
	"strconv"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type adjustCommand struct {
	entry
	Action string `arg:"" optional:"" name:"action" help:"reset: nothing is used, and failures and lockout are cleared; holds, an override and a block by hand stay. set N: N units are used. add N: N more are; add -5 takes 5 away. block DURATION or TIME: deny everything until then. unblock: end every block, and clear failures and lockout." enum:"reset,set,add,block,unblock," default:""`
	Value  string `arg:"" optional:"" help:"Of set, add and block."`
	Limit  string `help:"Only this limit of the policy."`
	auditFlags
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
		until, err := c.untilOf(c.entry, c.Value)
		if err != nil {
			return err
		}
		m.Op = &stintv1.AdjustRequest_BlockUntil{BlockUntil: until}
	}
	return nil
}
