package sim

import "testing"

// envoyGuards keep Envoy's clients from passing uncounted, or on another key.
var envoyGuards = []judged{
	{mutant{"a client writes the tag of a key", "policy/template.go", "strings.ContainsRune(\"%=|{}/\", r)", "strings.ContainsRune(\"%=|/\", r)"},
		tests("policy", "TestKeysOfTemplates")},
	{mutant{"a client writes the mark between two fields", "policy/template.go", "strings.ContainsRune(\"%=|{}/\", r)", "strings.ContainsRune(\"%{}/\", r)"},
		tests("policy", "TestKeysOfTemplates")},
	{mutant{"a client writes the key of a parent", "policy/template.go", "strings.ContainsRune(\"%=|{}/\", r)", "strings.ContainsRune(\"%=|{}\", r)"},
		tests("api", "TestOddValuesOfEnvoy")},
	{mutant{"a client leaves out the key of a parent", "policy/template.go", "if value == \"\" {", "if false {"},
		tests("api", "TestOddValuesOfEnvoy")},
	{mutant{"a long value cuts off what stands behind it", "policy/template.go", "shortened(key, from, t.room)", "shortened(key, 0*from, keyBytesMax)"},
		tests("policy", "TestLongValuesOfTemplates")},
	{mutant{"a key passes by the pool of its policy", "policy/rule_entry.go", "if known && p.Parent != \"\" &&", "if false &&"},
		tests("policy", "TestKeysOfPoliciesWithParents")},
	{mutant{"bytes that are no text are an error, which Envoy lets pass", "api/request_envoy_text.go", "envoy && err != nil {", "envoy && false {"},
		tests("api", "TestBytesThatAreNoText")},
	{mutant{"a cost above all bounds is an error", "api/request_envoy.go", "hits := min(envoyHits(m, d), envoyCostMax)", "hits := envoyHits(m, d)"},
		tests("api", "TestOddValuesOfEnvoy")},
	{mutant{"a report that fails takes a denial back", "api/service_envoy.go", "err != nil && allowed {", "err != nil {"},
		tests("api", "TestADenialByEnvoysRulesStands")},
	{mutant{"an unknown key of a report is an error", "api/service_envoy.go", " && result.Err.Code != shard.KeyNotFound", ""},
		tests("api", "TestADenialByEnvoysRulesStands")},
	{mutant{"two limits for one descriptor are one", "api/request_envoy_unit.go", "\"|limit=\"+name+\"|\"", "\"|\""},
		tests("api", "TestOverridesOfOneDescriptor")},
	{mutant{"the first of two quotas counts", "api/request_envoy.go", "min(before.Limits[i].Quota, entry.Limits[i].Quota)", "before.Limits[i].Quota"},
		tests("api", "TestOverridesOfOneDescriptor")},
	{mutant{"an unknown key is an error, which Envoy lets pass", "api/service_envoy.go", "failure.Code == shard.KeyNotFound:", "false:"},
		tests("api", "TestWhatEnvoyIsAnswered")},
	{mutant{"a policy that a shard does not know yet is an error", "api/service_envoy.go", "failure.Code == shard.PolicyNotFound &&", "false &&"},
		tests("api", "TestEnvoyRulesAreNewerThanAShard")},
	{mutant{"a look that is over lets the others be counted", "api/service_envoy.go", "allowed = !r.denied(step, &decided)", "allowed = allowed || !r.denied(step, &decided)"},
		tests("api", "TestLooksReportsAndShadowsOfEnvoy")},
	{mutant{"whoever checks gives back", "api/request_envoy.go", "if envoyStep(step) == envoyBack {", "if false {"},
		tests("api", "TestEnvoyNeedsAToken")},
	{mutant{"whoever checks brings limits along", "api/request_envoy.go", "if e.Limits != nil && !who.May(auth.Inline, on) {", "if false {"},
		tests("api", "TestEnvoyNeedsAToken")},
}

// TestEnvoyMutants removes each of them.
func TestEnvoyMutants(t *testing.T) { judgeMutants(t, envoyGuards) }
