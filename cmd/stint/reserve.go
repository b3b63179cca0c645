package main

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type reserveCommand struct {
	entries
	TTL      time.Duration `name:"ttl" help:"How long the hold lives unless it is settled." default:"60s"`
	OnExpire string        `help:"What becomes of it then: cancel gives the units back, commit spends them. Default: what the policy says." enum:"policy,cancel,commit" default:"policy"`
	ID       string        `help:"Idempotency id: asked again with it, the same request is held once."`
	outputID
	remote
}

// Run requests a hold, prints its id, and returns errDenied if there is none.
func (c *reserveCommand) Run(s streams) error {
	messages, err := c.messages()
	if err != nil {
		return err
	}
	request := &stintv1.ReserveRequest{
		Check:    &stintv1.CheckRequest{Namespace: c.Namespace, IdempotencyId: c.ID, Entries: messages},
		Ttl:      durationpb.New(c.TTL),
		OnExpire: stintv1.OnExpire(stintv1.OnExpire_value["ON_EXPIRE_"+strings.ToUpper(c.OnExpire)])} // policy: none
	answer, err := ask(c.remote, "reserve "+c.String(), maybeCounted, c.limits().Reserve, request)
	if err != nil {
		return err
	}
	d := answer.GetDecision()
	return c.print(s, answer, d, d.GetHoldId(), verdictLine("held", c.String(), d), func() { c.table(s, d) })
}

func (c *reserveCommand) table(s streams, d *stintv1.Decision) {
	if d.GetAllowed() {
		fmt.Fprintf(s.out, "hold %s\nends at %s, in %s, unless it is settled\n",
			d.GetHoldId(), instant(d.GetHoldExpiresAt()),
			api.DurationText(d.GetHoldExpiresAt().AsTime().Sub(d.GetDecidedAt().AsTime()).Round(time.Millisecond)))
	}
	printDecided(s, d)
}
