package stint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestWorkflowsRunWhatThereIs reads .github/workflows: each is a workflow, and each target of make and script that a
// step names exists.
func TestWorkflowsRunWhatThereIs(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(".github/workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	named := regexp.MustCompile(`\bmake [a-z-]+|\.ci/[a-z]+`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct {
			On   map[string]any
			Jobs map[string]struct {
				RunsOn string `yaml:"runs-on"`
				Steps  []struct{ Uses, Run string }
			}
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		ours := 0
		for name, job := range workflow.Jobs {
			if job.RunsOn == "" {
				t.Errorf("%s: job %s runs nowhere", file, name)
			}
			for _, step := range job.Steps {
				if (step.Uses == "") == (step.Run == "") || step.Uses != "" && !strings.Contains(step.Uses, "@") {
					t.Errorf("%s: job %s: a step uses %q and runs %q", file, name, step.Uses, step.Run)
				}
				for _, what := range named.FindAllString(step.Run, -1) {
					ours++
					target, isTarget := strings.CutPrefix(what, "make ")
					if isTarget && !strings.Contains(string(makefile), "\n"+target+": ") || !isTarget && !exists(what) {
						t.Errorf("%s runs %s, which is not there", file, what)
					}
				}
			}
		}
		if len(workflow.On) == 0 || ours == 0 {
			t.Errorf("%s: nothing begins it, or it runs nothing of ours", file)
		}
	}
}
