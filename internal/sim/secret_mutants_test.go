package sim

import "testing"

// secretGuards keep the ids that any node gave out good for as long as a cluster has promised, and no longer.
var secretGuards = []judged{
	{mutant{"a secret seals before all nodes know it", "cluster/placement/secrets.go", "if len(Unconfirmed(t, version, reports)) > 0 {", "if false {"},
		tests("cluster/placement", "TestEveryNodeOpensWhatAnotherOneSeals")},
	{mutant{"a secret is dropped while a node may seal with it", "cluster/placement/secrets.go", "case !s.Settled():\n\t\treturn nil, nil, ErrRotating\n\tcase len(s.Sealing) == 1:", "case len(s.Sealing) == 1:"},
		tests("cluster/placement", "TestEveryNodeOpensWhatAnotherOneSeals")},
	{mutant{"a secret ends before it is given up", "cluster/placement/secrets.go", "if waiting := s.Waiting(); waiting != 0 {\n\t\tnext.Seals = waiting\n\t\treturn next,",
		"if waiting := s.Waiting(); waiting != 0 {\n\t\tnext.Seals = waiting\n\t\tnext.end(now)\n\t\treturn next,"},
		tests("cluster/placement", "TestARotationTakesItsStepsWhenAllNodesKnowTheLast")},
	{mutant{"a secret never ends", "cluster/placement/secrets.go", "ended := one.Ends != 0 && one.Ends <= now.UnixMicro()", "ended := false"},
		tests("cluster/placement", "TestARotationTakesItsStepsWhenAllNodesKnowTheLast")},
	{mutant{"a dropped secret opens", "cluster/placement/secrets.go", "\t\tif one.Number == s.SealsWith() {\n\t\t\tnext.Sealing = append", "\t\tif next.Sealing = append(next.Sealing, one); one.Number == s.SealsWith() {\n\t\t\tnext.Sealing = append"},
		tests("cluster/placement", "TestDroppedSecretsAreGone")},
	{mutant{"an id of a release names no secret", "shard/hold_handle.go", "head, number := []byte{handleFormat}, uint64(1)", "head, number := []byte{handleFormat}, uint64(s.seals.number)"},
		tests("shard", "TestIDsOfReleasesAreThoseOfTheFirstSecret")},
	{mutant{"an id of a secret that is not known yet is wrong", "shard/hold_handle.go", "return nil, ErrHandleNewer", "return nil, ErrHandle"},
		tests("api", "TestAnIDIsRefusedByWhatIsKnownOfItsSecret")},
	{mutant{"a cluster that cannot be asked has no such secret", "api/service_limit.go", "\tif unknown != nil {\n\t\treturn r, err\n", "\tif unknown != nil {\n\t\treturn r, shard.ErrHandle\n"},
		tests("api", "TestAnIDIsRefusedByWhatIsKnownOfItsSecret")},
	{mutant{"secrets are rotated while a node knows one only", "internal/node/secret_admin.go", "if a.view.level() < shard.LevelTrust {", "if false {"},
		tests("internal/node", "TestNoSecretIsRotatedBeforeTheUpgradeIsFinished")},
	{mutant{"a restored cluster seals as the lost one", "cluster/placement/secrets.go", "next.Seals = next.add(key, now)\n", "next.add(key, now)\n"},
		tests("cluster/placement", "TestARestoredClusterSealsWithASecretOfItsOwn")},
}

// TestSecretMutants removes each of them.
func TestSecretMutants(t *testing.T) { judgeMutants(t, secretGuards) }
