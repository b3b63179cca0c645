package mutants

import "slices"

// group is mutants that the same tests must detect.
type group struct {
	seenBy suite
	edits  edits
}

// tables are all mutants, by the package with the tests that detect them.
var tables = slices.Concat(ofActor, ofShard, ofRaftfsm, ofCluster, ofNode, ofSim, ofOthers, ofAPI, ofGate)
