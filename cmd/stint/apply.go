package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

type applyCommand struct {
	File            string  `short:"f" help:"Policies file; - is stdin." required:"" placeholder:"FILE"`
	IfChanged       bool    `help:"Do nothing if these policies are in force."`
	ExpectedVersion *uint64 `help:"Only if this is the version in force." placeholder:"N"`
	applying
}

// applying has the flags of the commands that put policies in force.
type applying struct {
	DryRun bool          `help:"Show what would change, and change nothing."`
	Prune  bool          `help:"Remove policies that are not in the file or version. Without it: ask on a terminal, fail otherwise."`
	Rekey  bool          `help:"Hash the keys of namespaces, or stop: all their keys are new. Without it: as without --prune."`
	Note   string        `help:"Why, for stint policies history."`
	Actor  string        `help:"Who, for the history." env:"STINT_ACTOR,USER"`
	Wait   time.Duration `help:"How long to wait until every shard decides by it; 0: not at all." default:"10s"`
	asking
}

// Run checks the file here, where line numbers are known, and puts it in force.
func (c *applyCommand) Run(s streams) error {
	set, err := readPolicies(s, c.File)
	if err != nil {
		return err
	}
	return c.put(s, set)
}

// put puts a set in force and waits for the shards.
func (c *applyCommand) put(s streams, set *policy.Set) (err error) {
	rules := string(policy.FormatRules(set))
	request := &stintv1.ApplyRequest{
		Policies:        api.PolicyMessages(set),
		Rules:           &rules,
		ExpectedVersion: c.ExpectedVersion,
		DryRun:          c.DryRun,
		Note:            c.Note,
		Rekey:           c.Rekey,
	}
	if c.IfChanged {
		if same, err := c.changesNothing(s, request); same || err != nil {
			return err
		}
	}
	told := c.json()
	if !c.DryRun && !c.Prune { // with --prune the server refuses what --rekey would allow
		if told, err = c.confirmLosses(s, request); err != nil {
			return err
		}
	}
	response, err := c.apply(request)
	if err != nil {
		return err
	}
	if !told {
		if err := printChanges(s.out, response); err != nil {
			return err
		}
	}
	if !c.json() {
		fmt.Fprintln(s.out, c.summary(response))
	}
	late := c.awaitShards(s, response)
	if c.json() {
		if err := printJSON(s, response); err != nil {
			return err
		}
	}
	return late
}

func (c *applyCommand) apply(request *stintv1.ApplyRequest) (*stintv1.ApplyResponse, error) {
	return ask(c.as(c.Actor).remote, "apply", "it may be in force all the same: stint policies tells the version",
		c.policies().Apply, request)
}

// changesNothing reports whether a file would change nothing, and prints that.
func (c *applyCommand) changesNothing(s streams, request *stintv1.ApplyRequest) (same bool, err error) {
	response, err := c.dryRun(request)
	if err != nil || len(response.Changes)+len(response.RuleChanges)+len(response.RekeyedNamespaces) > 0 {
		return false, err
	}
	if c.json() {
		return true, printJSON(s, response)
	}
	fmt.Fprintln(s.out, nothingDiffers(response.Version))
	return true, nil
}

// dryRun returns the changes that a request would make.
func (c *applyCommand) dryRun(request *stintv1.ApplyRequest) (*stintv1.ApplyResponse, error) {
	return c.apply(&stintv1.ApplyRequest{Policies: request.Policies, Rules: request.Rules,
		ExpectedVersion: request.ExpectedVersion, DryRun: true})
}

func nothingDiffers(version uint64) string {
	return fmt.Sprintf("nothing differs from policies version %d", version)
}

// confirmLosses looks up the changes of the file, and checks that missing policies may end and that the keys of
// namespaces may become new. It then restricts the request to the version that was compared, so that nothing ends
// without notice. told reports whether the changes are already printed.
func (c *applyCommand) confirmLosses(s streams, request *stintv1.ApplyRequest) (told bool, err error) {
	response, err := c.dryRun(request)
	if err != nil {
		return false, err
	}
	request.ExpectedVersion = &response.Version
	losses := c.losses(response)
	if len(losses) == 0 {
		return c.json(), nil
	}
	diff := s.out
	if c.json() {
		diff = s.err
	}
	if err := printChanges(diff, response); err != nil {
		return true, err
	}
	if !s.canPrompt() || c.File == "-" {
		var fates, remedies []string
		for _, loss := range losses {
			fates, remedies = append(fates, loss.fate), append(remedies, loss.remedy)
		}
		return true, fmt.Errorf("apply: %s; nothing was changed: %s",
			strings.Join(fates, "; "), strings.Join(remedies, "; "))
	}
	for _, loss := range losses {
		if !s.agrees(loss.fate + ". Go on?") {
			return true, errors.New("apply: nothing was changed")
		}
	}
	request.Rekey = true
	return true, nil
}

// loss is something that a file would end, and the remedy.
type loss struct{ fate, remedy string }

// losses lists what the file would end without the command's permission.
func (c *applyCommand) losses(response *stintv1.ApplyResponse) (losses []loss) {
	var ended []string
	for _, change := range response.Changes {
		if change.After == nil {
			ended = append(ended, change.Before.GetName())
		}
	}
	rules := 0
	for _, change := range response.RuleChanges {
		if change.After == "" {
			rules++
			ended = append(ended, change.Section+"."+change.Name)
		}
	}
	if len(ended) > 0 && !c.Prune {
		losses = append(losses, loss{fmt.Sprintf("%s not in %s and would end: %s", countEnded(len(ended), rules),
			c.File, strings.Join(ended, ", ")),
			"add --prune if they are to end, or add them to the file (stint policies -o yaml prints what is in force)"})
	}
	if rekeyed := response.RekeyedNamespaces; len(rekeyed) > 0 && !c.Rekey {
		losses = append(losses,
			loss{fmt.Sprintf("all keys of %s would be new, with nothing used and without their overrides and blocks, "+
				"because they become hashed, or plain again", strings.Join(rekeyed, ", ")),
				"add --rekey if that is meant"})
	}
	return losses
}

// countEnded begins a sentence about what would end. Of the ended, rules are not policies.
func countEnded(ended, rules int) string {
	switch {
	case ended > 1 && rules > 0:
		return fmt.Sprintf("%d policies and rules are", ended)
	case ended > 1:
		return fmt.Sprintf("%d policies are", ended)
	case rules > 0:
		return "1 rule is"
	}
	return "1 policy is"
}

func (c *applyCommand) summary(r *stintv1.ApplyResponse) string {
	var added, changed, ended int
	count := func(isNew, ends bool) {
		switch {
		case isNew:
			added++
		case ends:
			ended++
		default:
			changed++
		}
	}
	for _, change := range r.Changes {
		count(change.Before == nil, change.After == nil)
	}
	for _, change := range r.RuleChanges {
		count(change.Before == "", change.After == "")
	}
	counts := fmt.Sprintf("%d added, %d changed, %d ended", added, changed, ended)
	switch {
	case c.DryRun && len(r.Changes)+len(r.RuleChanges) == 0:
		return nothingDiffers(r.Version)
	case c.DryRun:
		return fmt.Sprintf("would be %s; policies version %d stays in force", counts, r.Version)
	}
	if len(r.Changes)+len(r.RuleChanges) == 0 {
		counts = "nothing differs"
	}
	return fmt.Sprintf("policies version %d is in force: %s", r.Version, counts)
}

// awaitShards waits until every shard has adopted the version. Shards that have not stay in the response.
func (c *applyCommand) awaitShards(s streams, r *stintv1.ApplyResponse) error {
	if len(r.PendingShards) == 0 {
		return nil
	}
	if c.Wait <= 0 {
		fmt.Fprintf(s.err, "not adopted yet by %s\n", shardList(r.PendingShards))
		return nil
	}
	left, err := await(s, c.Wait, func() (string, error) {
		status, err := c.status("apply")
		if err != nil {
			return "", err
		}
		r.PendingShards = pendingShards(status, r.PendingShards, r.Version)
		if len(r.PendingShards) == 0 {
			return "", nil
		}
		return "waiting for " + shardList(r.PendingShards), nil
	})
	if err == nil && left == "" {
		return nil
	}
	return fmt.Errorf("apply: policies version %d is in force, but after %v %s had not adopted it; "+
		"they will when they can: see stint status", r.Version, c.Wait, shardList(r.PendingShards))
}

// pendingShards returns the shards that still decide by an older version.
func pendingShards(m *stintv1.StatusResponse, pending []uint32, version uint64) []uint32 {
	adopted := map[uint32]bool{}
	for _, d := range m.Shards {
		adopted[d.Id] = d.PoliciesVersion >= version
	}
	return slices.DeleteFunc(slices.Clone(pending), func(id uint32) bool { return adopted[id] })
}

func shardList(ids []uint32) string {
	if len(ids) == 1 {
		return "shard " + numberList(ids)
	}
	return "shards " + numberList(ids)
}
