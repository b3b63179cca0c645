package sim

import (
	"path/filepath"
	"testing"
)

// raftMutants are the rules about hashicorp/raft and disks that package raftfsm keeps, each taken away, with the test
// there that sees it.
var raftMutants = []struct {
	mutant
	seenBy string
}{
	{mutant{"R1: heartbeats overtake the main goroutine", "raftfsm/transport.go",
		"func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}",
		"func (t *transport) SetHeartbeatHandler(f func(raft.RPC)) { t.NetworkTransport.SetHeartbeatHandler(f) }"},
		"TestGroupsKeepHeartbeatsInLine"},
	{mutant{"R5: a vote in two writes", "raftfsm/stable.go",
		"\treturn binary.BigEndian.Uint64(b), b[8:], nil",
		"\tif s.voteTerm != 0 {\n\t\treturn s.voteTerm, b[8:], nil\n\t}\n\treturn binary.BigEndian.Uint64(b), b[8:], nil"},
		"TestVoteIsAtomic"},
	{mutant{"R6: a failed write is not the end", "raftfsm/failfs.go", "\tif err != nil {\n\t\tf.poison", "\tif false {\n\t\tf.poison"},
		"TestFailedWriteIsSeenBeforePebbleSeesIt"},
	{mutant{"R6: a disk that failed is trusted again", "raftfsm/group.go",
		"!g.cfg.Lone && g.stores.suspicion.names(replica)", "false"},
		"TestReplicasOfAFailedDiskAreReplaced"},
	{mutant{"R7: a hung leader is not silent", "raftfsm/group.go",
		"newTransport(layer, logger, g.guard.hung.Load)", "newTransport(layer, logger, func() bool { return false })"},
		"TestLeaderWithAHungDiskIsReplaced"},
	{mutant{"R9: a stuck transfer is tried for ever", "raftfsm/transfer.go", "idle > 2*g.electionTimeout()", "idle < 0"},
		"TestStuckTransferIsReported"},
	{mutant{"R12a: a replica is opened that was never created", "raftfsm/create.go",
		"return groupRecord{}, fmt.Errorf(\"it was never created here: %w\", ErrLost)",
		"return groupRecord{Replica: replica}, nil"},
		"TestWipedDiskUnderItsOldNumber"},
	{mutant{"R12a: a number is used again", "raftfsm/create.go",
		"found >= 0 && s.groups[found].Destroyed", "false"},
		"TestReplicaIsDestroyedBeforeItIsCreated"},
	{mutant{"a voter that has nothing", "raftfsm/members.go", "heard.lastLog+caughtUpEntries < last", "false"},
		"TestLearnerIsPromotedWhenItHasCaughtUp"},
	{mutant{"a leader's copy counts before its disk has it", "raftfsm/transport.go",
		"if !t.onOwnDisk(last) {", "if false {"},
		"TestEntryIsReplicatedBesideTheLeadersFsyncAndCommittedAfterIt"},
	{mutant{"the only voter's log runs ahead of its disk", "raftfsm/guard.go",
		" && !alone(l.guard.group, l.roster.latest().conf)", ""},
		"TestLastVoterCommitsNothingThatItsDiskDoesNotHave"},
	{mutant{"a configuration runs ahead of the disk", "raftfsm/guard.go", " && !configures(logs)", ""},
		"TestLastVoterCommitsNothingThatItsDiskDoesNotHave"},
	{mutant{"a term overtakes what the old one wrote", "raftfsm/guard.go",
		"s.ahead.settle()\n\ts.guard.write(\"storing a term\"", "s.guard.write(\"storing a term\""},
		"TestTermWaitsForWhatTheOldOneWrote"},
	{mutant{"a vote overtakes what the old term wrote", "raftfsm/guard.go",
		"s.ahead.settle()\n\ts.guard.write(\"storing a vote\"", "s.guard.write(\"storing a vote\""},
		"TestTermWaitsForWhatTheOldOneWrote"},
	{mutant{"members of a log that was cut off", "raftfsm/guard.go", "\t\tl.roster.cutOff(first)\n", ""},
		"TestChangeWithoutAMajorityEnds"},
}

// TestRaftMutants takes each rule away; its test must fail.
func TestRaftMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a test once for each mutant")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range raftMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			replaced := map[string]string{filepath.Join(root, m.file): m.write(t, root)}
			output, failed := suite{"-run=^" + m.seenBy + "$", "./raftfsm"}.simulate(t, root, replaced)
			if !failed {
				t.Fatalf("%s does not see it:\n%s", m.seenBy, output)
			}
		})
	}
}
