package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type settleCommand struct {
	Handle  string        `arg:"" name:"id" help:"Of a hold or a decision, as reserve and check print it with -o id."`
	Action  string        `arg:"" help:"commit: the units are spent. cancel: they are given back. extend: the hold lives for longer. success: cancel, and clear failures and lockout. failed: commit, and that is a violation." enum:"commit,cancel,extend,success,failed"`
	Actual  []uint64      `help:"commit: what was really spent, one number for each key, separated by commas. Default: what was held." placeholder:"N"`
	Overage string        `help:"commit: what becomes of units above the hold. clamp: counted as far as there is room. debt: counted. reject: the commit is refused." enum:"clamp,debt,reject" default:"clamp"`
	TTL     time.Duration `name:"ttl" help:"extend: how long the hold lives from now on." placeholder:"DURATION"`
	ID      string        `help:"Idempotency id: asked again with it, the same request gets the same answer."`
	asking
}

// settledText maps each action to the word for its effect.
var settledText = map[string]string{"commit": "committed", "cancel": "cancelled", "extend": "extended",
	"success": "success", "failed": "failed"}

// Run settles a hold or a decision and prints the state after it.
func (c *settleCommand) Run(s streams) error {
	request, err := c.request()
	if err != nil {
		return err
	}
	answer, err := c.settle(request)
	if isDecision(err) { // only the server can tell, and it has settled nothing
		request.Target = &stintv1.SettleRequest_DecisionId{DecisionId: c.Handle}
		answer, err = c.settle(request)
	}
	return show(s, c.output, answer, err, c.print)
}

func (c *settleCommand) settle(m *stintv1.SettleRequest) (*stintv1.SettleResponse, error) {
	return ask(c.remote, "settle "+c.Action, "it may have been settled: repeat it to learn, it is done once",
		c.limits().Settle, m)
}

func (c *settleCommand) print(s streams, m *stintv1.SettleResponse) {
	d, line := m.GetDecision(), settledText[c.Action]
	if d.GetHoldExpiresAt() != nil {
		line += " until " + instant(d.GetHoldExpiresAt())
	}
	if d.GetReplayed() {
		line += " (before, and not again)"
	}
	fmt.Fprintln(s.out, line)
	printDecided(s, d)
}

// request names the handle as that of a hold, which Run corrects if it is a decision's: from the text of an id only the
// server can tell.
func (c *settleCommand) request() (*stintv1.SettleRequest, error) {
	switch {
	case c.Action != "commit" && len(c.Actual) > 0:
		return nil, usagef("--actual: is for commit")
	case c.Action != "commit" && c.Overage != "clamp":
		return nil, usagef("--overage: is for commit")
	case c.Action == "extend" && c.TTL == 0:
		return nil, usagef("extend: needs --ttl: how long the hold lives from now on")
	case c.Action != "extend" && c.TTL != 0:
		return nil, usagef("--ttl: is for extend")
	}
	m := &stintv1.SettleRequest{IdempotencyId: c.ID, Target: &stintv1.SettleRequest_HoldId{HoldId: c.Handle}}
	switch c.Action {
	case "commit":
		overage := stintv1.Overage_value["OVERAGE_"+strings.ToUpper(c.Overage)]
		m.Action = &stintv1.SettleRequest_Commit{
			Commit: &stintv1.Commit{ActualCost: c.Actual, Overage: stintv1.Overage(overage)}}
	case "cancel":
		m.Action = &stintv1.SettleRequest_Cancel{Cancel: &stintv1.Cancel{}}
	case "extend":
		m.Action = &stintv1.SettleRequest_Extend{Extend: &stintv1.Extend{Ttl: durationpb.New(c.TTL)}}
	case "success":
		m.Action = &stintv1.SettleRequest_Success{Success: &stintv1.Success{}}
	case "failed":
		m.Action = &stintv1.SettleRequest_Failed{Failed: &stintv1.Failed{}}
	}
	return m, nil
}

// isDecision reports whether the server answered that a decision's id was sent as the id of a hold.
func isDecision(err error) bool {
	var failure *connect.Error
	return errors.As(err, &failure) && failure.Code() == connect.CodeInvalidArgument &&
		strings.HasPrefix(failure.Message(), "hold_id: is a decision_id")
}
