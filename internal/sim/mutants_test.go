package sim

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mutantsFlag is not for `go test ./...`: each mutant needs its own build (make mutants).
var mutantsFlag = flag.Bool("sim.mutants", false, "judge every mutant; without it, only whether they fit the source")

// root is the module's directory.
var root, _ = filepath.Abs("../..")

// mutant is a removed guard: old stands in file exactly once, and new replaces it.
type mutant struct {
	name, file, old, new string
}

// Not included: an owner that continues after a foreign EpochOpen. The fence drops everything that it proposes, so the only
// effect is a wasted entry (TestForeignEpochOpenClosesAtOnce in package actor detects it).
var mutants = []mutant{
	{"no gate", "actor/sequencer.go",
		"\tq.sumDue--\n\treturn payload",
		"\tq.sumDue--\n\tlast := &q.inFlight[len(q.inFlight)-1]\n\tlast.openGate()\n\tlast.parts = nil\n\treturn payload"},
	{"no fence of epochs", "shard/state.go", "case e.epoch != s.epoch:", "case false:"},
	{"no fence of terms", "shard/state.go", "case term != s.term:", "case false:"},
	{"no fence of numbers", "shard/state.go", "case e.seq != s.seq+1:", "case false:"},
	{"the epoch is the term", "shard/state.go",
		"s.epoch, s.term, s.seq, s.time = index, term,", "s.epoch, s.term, s.seq, s.time = term, term,"},
	{"an epoch brings its own time", "shard/state.go", "term, 0, max(s.time, e.time)", "term, 0, e.time"},
	{"a dropped entry opens the gate", "actor/sequencer.go", "return errDropped", "return nil"},
	{"an unknown outcome opens the gate", "actor/sequencer.go",
		"case errors.As(err, &known):\n\t\treturn known", "case errors.As(err, &known):\n\t\treturn nil"},
	{"unknown is told as not applied", "actor/sequencer.go",
		"case errors.As(err, &known):\n\t\treturn known", "case errors.As(err, &known):\n\t\treturn errNotOwner"},
	{"the epoch does not end with a failed proposal", "actor/sequencer.go",
		"failure != nil {\n\t\tq.close()\n", "failure != nil {\n"},
	{"wall clock instead of shard time", "actor/sequencer.go", "max(q.last+1, now)", "now"},
	{"no overlay", "actor/overlay.go", "if len(v.overlay.records) > 0 {", "if false {"},
	{"the overlay is dropped too early", "actor/overlay.go", "if o.records[key].seq == seq {", "if true {"},
	{"an abandoned call runs", "actor/sequencer.go",
		"if !c.fate.CompareAndSwap(queued, started) {\n\t\treturn false", "if !c.fate.CompareAndSwap(queued, started) {\n\t\treturn true"},
	{"what the node knows instead of what the log holds", "actor/sequencer.go",
		"shard.Evaluate(seen, q.rules.adopted.Set,", "shard.Evaluate(seen, q.rules.known.Set,"},
	{"older policies are adopted", "actor/policies.go",
		"return r.known.Version > r.adopted.Version", "return r.known.Version > 0 && r.known.Version != r.adopted.Version"},
	{"policies of an earlier epoch", "actor/policies.go",
		"\tvar err error\n\tif q.rules.adopted, err", "\tvar err error\n\tif q.rules.adopted.Set != nil {\n\t\treturn nil\n\t}\n\tif q.rules.adopted, err"},
	{"a handover that does not wait", "actor/sequencer.go",
		"if !q.paused || len(q.inFlight) > 0 {", "if !q.paused {"},
	{"proposing during a handover", "actor/sequencer.go", "q.state == open && !q.paused && len", "q.state == open && len"},
	{"shard time jumps to the reference", "actor/clock.go", "min(max(c.owed, -most), most)", "c.owed + 0*most"},
	{"no idempotency record", "shard/eval.go",
		"if answer.Err == nil && answer.Decision.Index != 0 && !e.brimful {", "if false {"},
	{"one id for any request", "shard/codec_answer.go",
		"if in.fixed64() != fingerprint(r) {", "if in.fixed64(); false {"},
	{"a denial counts", "shard/eval.go", "\tcase d.Allowed:\n\t\te.count(d)", "\tcase d.Allowed || r.Op == Check:\n\t\te.count(d)"},
	{"records are forgotten early", "shard/store_table.go", "if s.ForgetAt > now {", "if s.ForgetAt > now+500_000 {"},
}

// sessionMutants are guards of sessions, which no client of the simulation uses: a test of package shard has worlds of copies
// for them.
var sessionMutants = []mutant{
	{"no session remembers what was counted", "shard/session_eval.go", "\t\te.s.add(&e.s.counted, e.r.Number)\n", ""},
	{"a copy runs after its caller heard no", "shard/session_eval.go", " || e.s.closed.has(e.r.Number)", ""},
	{"a finished copy runs", "shard/session_eval.go", "e.r.Number <= e.s.acked || ", ""},
	{"a copy's time is asked before its session", "shard/session_eval.go", "\tsessionEvaluation{e, s, r}.decideOnce(answer)\n",
		"\tif r.NotAfter != 0 && e.at.Now > r.NotAfter {\n\t\te.decideInTime(r, answer)\n\t\treturn\n\t}\n" +
			"\tsessionEvaluation{e, s, r}.decideOnce(answer)\n"},
	{"a copy of a reservation does not say which hold it was", "shard/session_eval.go",
		"(!d.Allowed || e.r.Op.answersOnce())", "!d.Allowed"},
	{"a copy of a reservation opens a second hold", "shard/session_eval.go",
		"case e.s.counted.has(e.r.Number):", "case e.s.counted.has(e.r.Number) && e.r.Op != Reserve:"},
}

// holdMutants are the rules of holds, settlements, ladders, overrides and policy changes. The slow twin of package model
// detects them.
var holdMutants = []mutant{
	{"a hold ends twice", "shard/counter_extras.go",
		"\tx.holds = slices.Delete(x.holds, i, i+1)\n", ""},
	{"holds expire after the requests of their batch", "shard/eval_batch.go", "\t\tc.expire(b.at.Now)\n", ""},
	{"a violation is when somebody comes by", "shard/hold_expiry.go", "c.violate(h.expires)", "c.violate(now)"},
	{"a hold is committed after it expired", "shard/hold_settle.go", "if !found {", "if !found && h.cost > 0 {"},
	{"a decision is refunded twice", "shard/hold_settle.go",
		"\tcase e.brimful && t.Hold:", "\tcase !t.Hold:"},
	{"a refund reaches a later window", "limit/fixed_window.go",
		"func (fixedWindow) refund(l Limit, s State, units uint64, taken, now Time) State {\n\tif taken < windowStart(l, s, now) {",
		"func (fixedWindow) refund(l Limit, s State, units uint64, taken, now Time) State {\n\tif taken < 0 {"},
	{"what was taken before a reset is given back after it", "shard/counter_extras.go",
		"return (h.taken > l.since || h.fresh && h.taken == l.since) &&", "return"},
	{"a decision is given back to a limit that has not counted it", "shard/hold_charged.go",
		"!slices.Contains(counted, print)", "slices.Contains(counted[:0], print)"},
	{"an id does not say what was granted", "shard/hold_charged.go", "\t\te.Cost = max(e.Cost, s.Granted)\n", "\t\te.Cost = r.Entries[i].Cost\n"},
	{"a limit of the concurrent gets back what it has become since", "shard/hold_charged.go", "if !s.Uncounted && ", "if "},
	{"a success ends a block by hand", "shard/counter_ladder.go", "\t\t*l = ladder{}\n\t\treturn\n",
		"\t\t*l, x.block = ladder{}, 0\n\t\treturn\n"},
	{"a reset ends a block by hand", "shard/counter.go", "\t\tc.extras.clearLadder()\n", "\t\tc.extras.unblock()\n"},
	{"a block by hand hides that of the ladder", "shard/counter_ladder.go",
		"until := max(x.block, x.ladder.blockedUntil)\n",
		"until := x.block\n\tif until == 0 {\n\t\tuntil = x.ladder.blockedUntil\n\t}\n"},
	{"a ladder does not climb", "shard/counter_ladder.go", "l.level = min(l.level, math.MaxUint32-1) + 1", "l.level = 1"},
	{"a ladder is never forgiven", "shard/counter_ladder.go", "if at >= l.forgiven(k) {", "if false {"},
	{"a success ends no block", "shard/counter_ladder.go", "l.blockedUntil = min(l.blockedUntil, at)", ""},
	{"a block does not deny", "shard/eval_ops.go", "\t\te.blocked = true\n", ""},
	{"denials are not counted", "shard/eval_denied.go", "r.Operation == nil && e.charges.anyCountsDenied()", "false"},
	{"an override that has expired is still used", "shard/counter_forget.go",
		"return o != nil && (o.Expires == 0 || o.Expires > now)", "return o != nil"},
	{"other numbers reinterpret what was used", "shard/counter.go",
		"s = c.changed(j, l.Limit, now)", "s = k.state"},
	{"a settlement that comes again settles again", "shard/hold_settle.go",
		"e.lookup(endKey(name)); found {", "e.lookup(endKey(name)); found && t.Hold && len(record.Value) == 0 {"},
	{"waits know nothing of holds", "shard/eval_denied.go", "\t\tfutures[i] = cs[i].future(now)\n",
		"\t\tfutures[i] = cs[i].future(now)\n\t\tif x := futures[i].counter.extras; x != nil {\n\t\t\tx.holds = nil\n\t\t}\n"},
	{"waits know nothing of overrides", "shard/eval_denied.go", "o.Expires != 0 && o.Expires < limit.MaxTime {", "false {"},
	{"an override that ends forgives", "shard/counter_change.go", "\tif ofRevision(c.policy.OnChange) {", "\tif c.policy.OnChange == policy.Restart {"},
	{"a lifted bucket gives back what it did not count", "shard/eval_ops.go", "\treturn o == Count || l.Unlimited &&", "\treturn false &&"},
	{"a commit keeps a place among the concurrent", "shard/counter_extras.go",
		"if (back || l.limit.Algorithm == limit.Concurrency) && l.counts(h) {", "if back && l.counts(h) {"},
	{"a check takes a place among the concurrent", "shard/eval_ops.go",
		"if l.Algorithm == limit.Concurrency && op != Reserve &&", "if false &&"},
	{"what shadow denied is given back", "shard/eval_ops.go",
		"!s.Allowed || s.Uncounted {", "s.Uncounted {"},
	{"a repeated answer does not say when the hold expires", "shard/codec_answer.go",
		"\t\td.HoldExpires = limit.Time(in.varint())\n", "\t\tin.varint()\n"},
}

// suite is the tests that judge a mutant: their pattern, their package, and their own flags.
type suite []string

var (
	simulation = suite{"-run=^TestSimulation$", "./actor"}
	twin       = suite{"-run=^(TestEveryDecisionIsTheTwins|TestASuccessThatStepsDownEndsTheBlock|TestALiftedBucket.*|TestAnOverrideForgivesNothing|TestADenialKnowsWhenAnOverrideEnds)$", "./shard", "-seed=1", "-operations=250000"}
	copies     = suite{"-run=^TestCopiesAreCountedOnce$", "./shard", "-seed=1"}
)

// TestMutants removes each guard of the shard and its actor: the simulation of one shard must fail.
func TestMutants(t *testing.T) { judgeMutants(t, simulation.sees(mutants)) }

// TestSessionMutants does the same with the worlds of copies.
func TestSessionMutants(t *testing.T) { judgeMutants(t, copies.sees(sessionMutants)) }

// TestHoldMutants does the same with the runs that the slow twin judges.
func TestHoldMutants(t *testing.T) { judgeMutants(t, twin.sees(holdMutants)) }

// TestAMutantIsSeen judges the cheapest mutant, so that the method is tested wherever tests run.
func TestAMutantIsSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a package")
	}
	i := slices.IndexFunc(holdMutants, func(m mutant) bool { return m.name == "a hold ends twice" })
	judgeMutant(t, judged{holdMutants[i], twin})
	if output, failed := twin.run(twin.build(t), 0); failed {
		t.Errorf("%v fails without any mutation:\n%s", twin, output)
	}
}

// judged is a mutant with the tests that must detect it.
type judged struct {
	mutant
	seenBy suite
}

func (s suite) sees(mutants []mutant) (all []judged) {
	for _, m := range mutants {
		all = append(all, judged{m, s})
	}
	return all
}

// judgeMutants checks that each mutant fits the current source. With -sim.mutants it also checks that the named tests fail on
// the mutant, and pass without it.
func judgeMutants(t *testing.T, all []judged) {
	var suites []suite
	for _, m := range all {
		m.fits(t)
		if !slices.ContainsFunc(suites, func(s suite) bool { return slices.Equal(s, m.seenBy) }) {
			suites = append(suites, m.seenBy)
		}
	}
	if !*mutantsFlag {
		return
	}
	t.Parallel() // while the last mutants of a suite wait for what does not come, those of the next ones run
	for _, s := range suites {
		t.Run("none for "+strings.Join(s, " "), func(t *testing.T) {
			t.Parallel()
			if output, failed := s.run(s.build(t), 0); failed {
				t.Fatalf("it fails without any mutation:\n%s", output)
			}
		})
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			judgeMutant(t, m)
		})
	}
}

// judgeMutant checks that a mutant is detected. A world has the same faults for one seed each time, but not the same order of
// goroutines: it may miss a mutant once. A world that does not end has detected nothing.
func judgeMutant(t *testing.T, m judged) {
	binary, number := m.build(t)
	for tries := 1; ; tries++ {
		output, failed := m.seenBy.run(binary, number)
		if failed && !(strings.Contains(output, "test timed out") && strings.Contains(m.seenBy[0], "TestClusters")) {
			t.Logf("at try %d: %s", tries, reason(output))
			return
		}
		if tries == 3 {
			t.Fatalf("%v does not see it:\n%s", m.seenBy, output)
		}
	}
}

// fits fails unless the text that the mutant replaces stands in its file exactly once.
func (m mutant) fits(t *testing.T) (source string) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		t.Fatalf("%s contains %q %d times, must be once: bring the mutant up to date", m.file, m.old, n)
	}
	return string(text)
}

// build returns a binary of the tests that must detect the mutant, and the number that switches it on there. A mutant that is
// on no switchboard has a binary of its own.
func (m judged) build(t *testing.T) (binary string, number int) {
	source := m.fits(t)
	if number := switchboardOf(t).number[m.mutant]; number > 0 {
		return m.seenBy.build(t), number
	}
	path := filepath.Join(t.TempDir(), filepath.Base(m.file))
	if err := os.WriteFile(path, []byte(strings.Replace(source, m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := buildTests(m.seenBy[1], map[string]string{filepath.Join(root, m.file): path}, filepath.Join(t.TempDir(), "alone"))
	if err != nil {
		t.Fatal(err)
	}
	return binary, 0
}

func switchboardOf(t *testing.T) *switchboard {
	b, err := switches()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// build returns the binary of the suite's package with the switchboard in it.
func (s suite) build(t *testing.T) string {
	binary, err := switchboardOf(t).binary(s[1])
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// run runs the short form of the suite with a mutant switched on, 0 for none, and reports whether it failed.
func (s suite) run(binary string, number int) (output string, failed bool) {
	arguments := []string{"-test" + strings.Replace(s[0], "-", ".", 1), "-test.failfast", "-test.short", "-test.timeout=3m"}
	run := exec.Command(binary, append(arguments, s[2:]...)...)
	run.Dir = filepath.Join(root, s[1])
	run.Env = append(os.Environ(), mutantVariable+"="+strconv.Itoa(number))
	text, err := run.CombinedOutput()
	return string(text), err != nil
}

var verdict = regexp.MustCompile(`the world of seed .*(\n.*)?|panic: .*|no world met this.*|.* is counted .*|the caller of .*|.*_test.go:.*`)

// reason is the first line of a failure that says what was detected.
func reason(output string) string {
	if line := verdict.FindString(output); line != "" {
		return line
	}
	return output
}
