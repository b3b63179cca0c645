package main

import (
	"path/filepath"
	"testing"

	"github.com/stint-io/stint/policy"
)

// To hash the keys of a namespace makes all of them new: a script has to say that this is meant.
func TestApplyRekeysNothingUnasked(t *testing.T) {
	f := newCluster()
	addr := f.serve(t)
	hashed := string(policy.Format(policy.Dev())) + "namespaces:\n  shop: {keys: hashed}\n"
	transcriptFrom(t, "apply_rekey_unasked", 1, hashed, "apply", "-f", "policies.yaml", "--addr", addr)
	if f.count("apply") > 0 || f.inForce().Version != 2 {
		t.Error("something was applied")
	}
	transcriptFrom(t, "apply_rekey", 0, hashed, "apply", "-f", "policies.yaml", "--rekey", "--addr", addr)
	if !f.rekey || !f.inForce().Set.HashesKeys("shop") {
		t.Error("it was not applied, or without saying that keys become new")
	}
	// Another file of hashed keys changes no key.
	file := filepath.Join(t.TempDir(), "more.yaml")
	writeFile(t, file, hashed+"  office: {}\n")
	if code, stdout, stderr := stint("apply", "-f", file, "--addr", addr); code != 0 || f.rekey {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	transcriptFrom(t, "apply_rekey_back", 1, string(policy.Format(policy.Dev())), "apply", "-f", "policies.yaml",
		"--addr", addr)
}
