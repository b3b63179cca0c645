package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mutant is a guard taken away: old stands in file exactly once, and new in its place.
type mutant struct {
	name, file, old, new string
}

// Not among them: an owner that goes on after a foreign EpochOpen. The fence drops all it proposes, so nothing comes of
// it but a wasted entry (TestForeignEpochOpenClosesAtOnce in package actor sees it).
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
	{"a fingerprint while entries are under way", "actor/sequencer.go",
		"(q.sumDue > 0 || len(q.inFlight) == 0)", "true"},
	{"an abandoned call runs", "actor/sequencer.go",
		"if !c.fate.CompareAndSwap(queued, started) {\n\t\treturn false", "if !c.fate.CompareAndSwap(queued, started) {\n\t\treturn true"},
	{"no idempotency record", "shard/evaluate.go",
		"if result.Err == nil && result.Decision.Index != 0 {\n\t\te.record", "if false {\n\t\te.record"},
	{"one id for any request", "shard/answer.go",
		"if in.fixed64() != fingerprint(r) {", "if in.fixed64(); false {"},
	{"a denial counts", "shard/evaluate.go", "case r.Op == Check && d.Allowed:", "case r.Op == Check:"},
	{"records are forgotten early", "shard/table.go", "if r.ForgetAt <= now {", "if r.ForgetAt <= now+500_000 {"},
}

// TestMutants runs the simulation once as the source is, and once for each mutant, on which it must fail.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the simulation once for each mutant")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if output, failed := simulate(t, root, nil); failed {
			t.Fatalf("the simulation fails without any mutation:\n%s", output)
		}
	})
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			output, failed := simulate(t, root, map[string]string{filepath.Join(root, m.file): m.write(t, root)})
			if !failed {
				t.Fatalf("the simulation does not see it:\n%s", output)
			}
			t.Log(reason(output))
		})
	}
}

// write puts the mutated copy of the file into a temporary directory and returns its path.
func (m mutant) write(t *testing.T, root string) string {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s contains %q %d times, must be once: bring the mutant up to date", m.file, m.old, n)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(m.file))
	if err := os.WriteFile(path, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// simulate runs the short simulation with some files replaced by others, and reports whether it failed.
func simulate(t *testing.T, root string, replace map[string]string) (output string, failed bool) {
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("go", "test", "-overlay="+path, "-vet=off", "-short", "-timeout=60s", "-run=^TestSimulation$", "./actor")
	run.Dir = root
	text, err := run.CombinedOutput()
	output = string(text)
	if strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]") {
		t.Fatalf("it does not build:\n%s", output)
	}
	return output, err != nil
}

var verdict = regexp.MustCompile(`the world of seed .*|panic: .*|no world met this.*`)

// reason is the first line of a failure that says what was seen.
func reason(output string) string {
	if line := verdict.FindString(output); line != "" {
		return line
	}
	return output
}
