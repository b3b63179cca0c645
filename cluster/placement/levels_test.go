package placement

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/cluster/gossip"
	"github.com/stint-io/stint/shard"
)

// climb is a cluster of nodes with changing levels.
type climb struct {
	t      *testing.T
	table  *Table
	levels *Levels
	seen   Observed
	now    time.Time
}

// newClimb returns n1, n2 and n3, all at the first level.
func newClimb(t *testing.T) *climb {
	c := &climb{t: t, table: NewTable("c", foundersIn("", "", ""), 2, 3), levels: FirstLevels(),
		seen: Observed{Reports: map[string]Report{}, Silent: map[string]time.Duration{}}, now: time.Unix(1e9, 0)}
	for _, n := range c.table.Nodes {
		c.seen.Reports[n.ID] = Report{Node: n.ID, Levels: levels(1, 1)}
	}
	return c
}

// runs starts a node with another binary on the same directory.
func (c *climb) runs(node string, newest shard.Level) {
	c.seen.Reports[node] = Report{Node: node, Levels: levels(newest, c.seen.Reports[node].Levels.Kept)}
}

// keeps writes the required level into a node's directory.
func (c *climb) keeps(node string) {
	c.seen.Reports[node] = Report{Node: node, Levels: levels(c.seen.Reports[node].Levels.Max, c.levels.Written())}
}

// levels are those of a node with a binary that knows the first one to newest.
func levels(newest, kept shard.Level) NodeLevels {
	return NodeLevels{Min: shard.LevelFirst, Max: newest, Kept: kept}
}

// plan plans until there is nothing to do.
func (c *climb) plan() (steps []string) {
	c.t.Helper()
	for range 10 {
		next, said := PlanLevels(c.table, c.levels, c.seen, c.now, "0.2.0")
		if next == nil {
			return steps
		}
		if again, err := DecodeLevels(next.Encode()); err != nil || string(again.Encode()) != string(next.Encode()) {
			c.t.Fatalf("written and read: %+v, %v", again, err)
		}
		c.levels, steps = next, append(steps, said...)
	}
	c.t.Fatalf("the plan does not come to rest: %q", steps)
	return nil
}

// fence sets the table's level to the one that the levels require.
func (c *climb) fence() {
	if next := c.table.ApplyLevel(c.levels.Written()); next != nil {
		c.table = next
	}
}

func (c *climb) at(want, next shard.Level) {
	c.t.Helper()
	if c.levels.Cluster != want || c.levels.Next != next {
		c.t.Fatalf("the cluster is at level %d, next %d; want %d, %d", c.levels.Cluster, c.levels.Next, want, next)
	}
}

func TestTheLevelRisesTenMinutesAfterTheLastNodeKnowsIt(t *testing.T) {
	c := newClimb(t)
	c.runs("n1", 2)
	c.runs("n2", 2)
	c.plan()
	c.now = c.now.Add(time.Hour)
	c.plan()
	c.at(1, 0)

	c.runs("n3", 2)
	c.plan()
	c.now = c.now.Add(9 * time.Minute)
	c.plan()
	c.at(1, 0)
	c.runs("n3", 1) // goes back: the ten minutes restart when it has the level again
	c.plan()
	c.now = c.now.Add(9 * time.Minute)
	c.runs("n3", 2)
	c.plan()
	c.now = c.now.Add(9 * time.Minute)
	c.plan()
	c.at(1, 0)

	c.now = c.now.Add(time.Minute)
	c.plan()
	c.at(1, 2)
}

// The ten minutes belong to one level: a later release gets its own.
func TestANewerLevelBeginsItsOwnTenMinutes(t *testing.T) {
	c := newClimb(t)
	all := func(newest shard.Level) {
		for _, n := range c.table.Nodes {
			c.runs(n.ID, newest)
		}
		c.plan()
	}
	all(2)
	c.now = c.now.Add(9 * time.Minute)
	all(3)
	c.now = c.now.Add(2 * time.Minute)
	c.plan()
	c.at(1, 0)
	c.now = c.now.Add(8 * time.Minute)
	c.plan()
	c.at(1, 3)
}

// The clock of the node that planned first was far ahead: the next planner restarts the ten minutes, and does not wait
// for that time.
func TestTenMinutesFromTheFutureBeginAnew(t *testing.T) {
	c := newClimb(t)
	right := c.now
	c.now = right.Add(24 * 365 * time.Hour)
	for _, n := range c.table.Nodes {
		c.runs(n.ID, 2)
	}
	c.plan()
	c.now = right
	c.plan()
	c.now = right.Add(10 * time.Minute)
	c.plan()
	c.at(1, 2)
}

func TestTheLevelRisesWhenAllDirectoriesCarryItAndTheTableIsFenced(t *testing.T) {
	c := newClimb(t)
	for node := range maps.Clone(c.seen.Reports) {
		c.runs(node, 2)
	}
	c.plan()
	next, level, err := c.levels.ApplyFinish(c.table, c.seen.Reports, 2)
	if err != nil || level != 2 {
		t.Fatal(level, err)
	}
	c.levels = next
	c.seen.Silent["n2"] = time.Second
	c.plan()
	c.at(1, 0) // n2 does not answer: it may return with any release
	if at := c.levels.RisesAt(); at.After(c.now) {
		t.Errorf("somebody has said that it is to rise now, and it is said to rise at %v", at)
	}
	delete(c.seen.Silent, "n2")
	c.plan()
	c.at(1, 2)
	c.keeps("n1")
	c.keeps("n2")
	c.fence()
	c.plan()
	c.at(1, 2) // n3 could still be started with the former release
	c.keeps("n3")
	fenced := c.table
	c.table = c.table.Clone()
	c.table.Level = 0
	c.plan()
	c.at(1, 2) // a plan made before the rise could still register a node of the former release
	c.table = fenced
	c.plan()
	c.at(2, 0)
	if steps := c.plan(); steps != nil {
		t.Errorf("a cluster at its level plans %q", steps)
	}
	c.runs("n3", 1)
	c.plan()
	c.at(2, 0) // it never falls
}

// The planner records a report within a second. Status goes by the report at once, and so does finish.
func TestWhatANodeReportsCountsBeforeItIsRecorded(t *testing.T) {
	c := newClimb(t)
	c.runs("n1", 2)
	c.runs("n2", 2)
	c.plan()
	c.runs("n3", 2)
	next, level, err := c.levels.ApplyFinish(c.table, c.seen.Reports, 2)
	if err != nil || level != 2 {
		t.Fatalf("all nodes report level 2: finish says %d, %v", level, err)
	}
	c.levels = next
	c.plan()
	c.at(1, 2)
	if _, _, err := FirstLevels().ApplyFinish(c.table, nil, 2); err == nil {
		t.Error("finished although no node has reported anything")
	}
}

func TestWhatIsNotKnownToAllIsNotFinished(t *testing.T) {
	c := newClimb(t)
	c.runs("n1", 2)
	c.runs("n3", 2)
	c.table.Nodes[1].Version = "0.1.0"
	c.plan()
	_, _, err := c.levels.ApplyFinish(c.table, c.seen.Reports, 2)
	if want := "not all nodes know level 2: n2 (release 0.1.0) knows 1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	c.runs("n2", 2)
	c.plan()
	if c.levels, err = c.levels.ApplyPin(1); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Hour)
	c.plan()
	c.at(1, 0)
	if _, _, err = c.levels.ApplyFinish(c.table, c.seen.Reports, 2); err == nil ||
		!strings.Contains(err.Error(), "pinned at 1: stint cluster upgrade pin 0") {
		t.Errorf("pinned: %v", err)
	}
	if c.levels, err = c.levels.ApplyPin(0); err != nil {
		t.Fatal(err)
	}
	c.plan()
	c.now = c.now.Add(10 * time.Minute)
	c.plan()
	c.at(1, 2)
	if _, err = c.levels.ApplyPin(1); err == nil || !strings.Contains(err.Error(), "a level never falls") {
		t.Errorf("pinned below the level on the way: %v", err)
	}
}

// A node that cannot read the level is not registered, and not given a replica if it is registered already.
func TestANodeThatCannotReadIsNotAdmitted(t *testing.T) {
	table := NewTable("c", foundersIn("", ""), 2, 3).ApplyLevel(2)
	seen := Observed{Reports: map[string]Report{}, Silent: map[string]time.Duration{}}
	for _, id := range []string{"n1", "n2"} {
		seen.Reports[id] = Report{Node: id, Levels: levels(2, 2)}
	}
	seen.Members = []gossip.Member{{Node: "n3", Cluster: "c", State: gossip.MemberAlive}}
	seen.Reports["n3"] = Report{Node: "n3", Levels: levels(1, 1)}
	if next, steps := Plan(table, seen); next != nil {
		t.Errorf("a node of the first level: %q", steps)
	}
	seen.Reports["n3"] = Report{Node: "n3", Levels: levels(3, 1)}
	next, _ := Plan(table, seen)
	if next == nil || next.Node("n3") == nil {
		t.Fatal("a node that knows the level is not registered")
	}
	// its disk was lost, and it returns with the former release
	seen.Reports["n3"] = Report{Node: "n3", Levels: levels(1, 1)}
	if after, steps := Plan(next, seen); after != nil && after.hasReplica("n3") && !next.hasReplica("n3") {
		t.Errorf("it is given replicas: %q", steps)
	}
}

func TestAClusterIsFoundedAtTheNewestLevelItsFoundersKnow(t *testing.T) {
	newest := Report{Levels: levels(2, 2)}
	for _, c := range []struct {
		name    string
		reports map[string]Report
		want    Levels
	}{
		{"all know it", map[string]Report{"a": newest, "b": newest}, Levels{Cluster: 2}},
		{"one has not answered", map[string]Report{"a": newest}, Levels{Cluster: 1, Next: 2, Finish: true}},
		{"one knows the first", map[string]Report{"a": newest, "b": {Levels: levels(1, 1)}}, Levels{Cluster: 1}},
	} {
		l := FoundingLevels([]string{"a", "b"}, c.reports, 2, "")
		if l.Cluster != c.want.Cluster || l.Next != c.want.Next || l.Finish != c.want.Finish {
			t.Errorf("%s: %+v, want %+v", c.name, l, c.want)
		}
	}
}
