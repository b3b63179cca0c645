package sim

import "testing"

// peerGuards keep strangers and removed nodes off the ports between nodes.
var peerGuards = []judged{
	{mutant{"the table does not admit", "cluster/peer/standing.go", "case listing == Unlisted && kind != kindAsk:", "case false:"},
		tests("cluster/peer", "TestTheTableAdmits")},
	{mutant{"a removed node may connect", "cluster/peer/standing.go", "case listing == Removed:", "case false:"},
		tests("cluster/peer", "TestTheTableAdmits")},
	{mutant{"removal cuts nothing", "cluster/peer/standing.go", "case refusal != 0:", "case refusal > 100:"},
		tests("cluster/peer", "TestRemovalCutsStandingConnections")},
	{mutant{"a new table is not asked who may stay connected", "internal/node/assemble.go", "n.peers.recheck(); wake()", "wake()"},
		tests("internal/node", "TestARemovedNodeIsOutThoughItDoesNotStop")},
	{mutant{"a connection made during a removal stands", "cluster/peer/greet.go",
		"if refusal := p.mayStand(hello.kind, peer.node); refusal != 0 {", "if refusal := p.mayStand(hello.kind, peer.node); refusal > 100 {"},
		tests("cluster/peer", "TestAConnectionThatIsMadeDuringARemovalDoesNotStand")},
	{mutant{"strangers hear ids", "cluster/peer/greet.go", "if p.config.Listing(peer.node) != Listed {", "if false {"},
		tests("cluster/peer", "TestOthersHearNoIDs")},
	{mutant{"an unlisted peer gets documents", "internal/node/reporter.go",
		"if p.view.listing(from) != peer.Listed && p.view.newestTable().Table != nil {", "if false {"},
		tests("internal/node", "TestAnUnlistedPeerGetsNoDocumentsAndIsNotBelieved")},
	{mutant{"an unlisted peer is believed", "internal/node/reporter.go", "\t\t\treturn false\n", "\t\t\treturn true\n"},
		tests("internal/node", "TestAnUnlistedPeerGetsNoDocumentsAndIsNotBelieved")},
	{mutant{"a line that was removed is accepted", "cluster/peer/key_file.go", "f.taken, f.said = text, \"\"\n\tf.inForce.Store(key)",
		"f.taken, f.said = text, \"\"\n\tif len(key.lines) >= len(f.Key().lines) {\n\t\tf.inForce.Store(key)\n\t}"},
		tests("cluster/peer", "TestTheLineThatWasRemovedIsRefusedAndItsConnectionsEnd")},
	{mutant{"what a removed line proved stays", "cluster/peer/standing.go",
		"case s.peer.line != \"\" && !slices.Contains(lines, s.peer.line):", "case s.peer.line == \"\" && slices.Contains(lines, s.peer.line):"},
		tests("cluster/peer", "TestTheLineThatWasRemovedIsRefusedAndItsConnectionsEnd")},
	{mutant{"forwarded requests stay on the old line", "cluster/peer/standing.go",
		"s.peer.own != lines[0] && s.drain != nil:", "s.peer.own == \"\" && s.drain != nil:"},
		tests("cluster/peer", "TestForwardedRequestsMoveToTheLineThatSends")},
	{mutant{"gossip hears a line that was removed", "cluster/gossip/gossip.go",
		"if err := g.keys.RemoveKey(old); err != nil {", "if err := g.keys.AddKey(old); err != nil {"},
		tests("cluster/gossip", "TestKeysAreReplacedWhileNodesGossip")},
	{mutant{"a key file is taken half written", "cluster/peer/key_file.go", "if !settled {", "if !settled && false {"},
		tests("cluster/peer", "TestAKeyFileThatCannotBeUsedLeavesTheLastContentInForce")},
	{mutant{"a leaving node is cut off with its clients", "cluster/placement/plan.go", " && !p.seen.Lingers[n.ID]", ""},
		tests("cluster/placement", "TestALeavingNodeLetsItsClientsGoBeforeItIsRemoved")},
	{mutant{"who lingers is read from an older table", "internal/node/reconciler_planner.go", "range t.Listed()", "range p.view.newestTable().Listed()"},
		tests("internal/node", "TestANodeThatHasLeftByThePlannedTableLingersWhileItAnswers")},
}

// TestPeerMutants removes each of them.
func TestPeerMutants(t *testing.T) { judgeMutants(t, peerGuards) }
