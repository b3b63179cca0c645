package placement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stint-io/stint/shard"
)

// LevelsDocument is the name of the document that holds Levels. It is not part of the table: a release that reads a
// table with unknown fields drops them when it writes the next one. It leaves a separate document alone.
const LevelsDocument = "levels"

// LevelSettles is how long all nodes must have known a level before the cluster rises to it by itself. This leaves time
// to see that the new release works, and to go back.
const LevelSettles = 10 * time.Minute

// Levels holds the feature level of the cluster, and the levels that its nodes know. It is a document of the system
// shard, replaced by compare-and-set only. A Levels is never changed once it was handed on.
//
// A rise has two steps. Next is set when all listed nodes know the level. Each node then writes it into its data
// directory, which no older binary opens from then on. Cluster follows when all of them have done so. So data written
// at a level can be read by every listed node, whatever binary it is started with next.
type Levels struct {
	Cluster shard.Level // the newest level that may be written; it never falls
	Next    shard.Level `json:",omitempty"` // the level that the cluster is about to rise to; 0 if none
	Pin     shard.Level `json:",omitempty"` // the cluster does not rise above it; 0 if not pinned
	Finish  bool        `json:",omitempty"` // rise as soon as all nodes know the level, as an operator requested
	// Since is when all nodes began to know Target, in Unix microseconds; 0 if they do not.
	Since   int64        `json:",omitempty"`
	Target  shard.Level  `json:",omitempty"` // the level that Since refers to
	Release string       `json:",omitempty"` // release of the node that last raised the level
	Nodes   []NodeLevels `json:",omitempty"` // by id
}

// NodeLevels is what a node reported about itself.
type NodeLevels struct {
	ID       string      `json:",omitempty"`
	Min, Max shard.Level // range of levels that its binary supports
	Kept     shard.Level // level in its data directory
}

// FirstLevels returns the levels of a cluster before it has such a document.
func FirstLevels() *Levels { return &Levels{Cluster: shard.LevelFirst} }

// FoundingLevels returns the levels of a new cluster: the newest level of the founding node, if the other founders know
// it too. If some have not reported it yet, the cluster waits for them before anything is written at that level.
func FoundingLevels(founders []string, reports map[string]Report, newest shard.Level, release string) *Levels {
	l := &Levels{Cluster: newest, Release: release}
	for _, id := range founders {
		report, heard := reports[id]
		switch {
		case heard && report.Levels.Max < newest:
			return FirstLevels()
		case !heard || report.Levels.Kept < newest:
			l.Cluster, l.Next, l.Finish = shard.LevelFirst, newest, true
		}
	}
	if l.Cluster == l.Next {
		l.Next, l.Finish = 0, false
	}
	return l
}

// Encode writes the levels as JSON. Equal levels have equal bytes.
func (l *Levels) Encode() []byte { return encode(l) }

// DecodeLevels reads the output of Encode. Unknown fields are ignored: a newer version may have added them.
func DecodeLevels(b []byte) (*Levels, error) {
	var l Levels
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("levels: %w", err)
	}
	if l.Cluster < shard.LevelFirst {
		return nil, fmt.Errorf("levels: the cluster's is %d, and the first is %d", l.Cluster, shard.LevelFirst)
	}
	return &l, nil
}

// Written returns the level that a node must know, because the cluster is at it or may be about to rise to it.
func (l *Levels) Written() shard.Level { return max(l.Cluster, l.Next) }

// Node returns what a node reported about itself, and false if it has never answered.
func (l *Levels) Node(id string) (NodeLevels, bool) {
	i := slices.IndexFunc(l.Nodes, func(n NodeLevels) bool { return n.ID == id })
	if i < 0 {
		return NodeLevels{ID: id}, false
	}
	return l.Nodes[i], true
}

// RisesAt returns when the level may rise, if all nodes answer then; zero if not all nodes know a newer one.
func (l *Levels) RisesAt() time.Time {
	known := time.UnixMicro(l.Since)
	switch {
	case l.Since == 0:
		return time.Time{}
	case l.Finish:
		return known
	}
	return known.Add(LevelSettles)
}

func (l *Levels) clone() *Levels {
	c := *l
	c.Nodes = slices.Clone(l.Nodes)
	return &c
}

// ApplyPin returns changed levels that do not rise above level; 0 removes the pin. It refuses a level below Written,
// because a level never falls.
func (l *Levels) ApplyPin(level shard.Level) (*Levels, error) {
	if level != 0 && level < l.Written() {
		return nil, fmt.Errorf("the cluster is at level %d, or on the way there, and a level never falls", l.Written())
	}
	next := l.clone()
	next.Pin = level
	if level != 0 && l.Next == 0 {
		next.Finish = false
	}
	return next, nil
}

// Heard returns what the listed nodes reported: as in reports, or as recorded for a node missing from reports. A node
// that has never answered is missing from the result: as long as there is one, no level is known to all.
func (l *Levels) Heard(t *Table, reports map[string]Report) (nodes []NodeLevels) {
	for _, n := range t.Listed() {
		levels, known := l.Node(n.ID)
		if report, heard := reports[n.ID]; heard {
			levels, known = report.Levels, true
			levels.ID = n.ID
		}
		if known {
			nodes = append(nodes, levels)
		}
	}
	return nodes
}

// ApplyFinish returns changed levels that rise as soon as possible, and the level that they rise to. If that level is
// the cluster's own, there is nothing to do. If the cluster cannot rise to newest now, the error names the obstacle.
// Reports count directly, because the planner records them only when it plans next, a second later.
func (l *Levels) ApplyFinish(t *Table, reports map[string]Report, newest shard.Level) (*Levels, shard.Level, error) {
	next := l.clone()
	next.Nodes = l.Heard(t, reports)
	var old []string
	for _, n := range t.Listed() {
		if levels, _ := next.Node(n.ID); levels.Max < newest {
			old = append(old, fmt.Sprintf("%s (release %s) knows %d", n.ID, cmp.Or(n.Version, "unknown"), levels.Max))
		}
	}
	switch target := next.ceiling(t); {
	case l.Pin != 0 && target <= l.Cluster && len(old) == 0 && l.Pin < newest:
		return nil, 0, fmt.Errorf("the level is pinned at %d: stint cluster upgrade pin 0 ends that", l.Pin)
	case target <= l.Cluster && len(old) > 0:
		return nil, 0, fmt.Errorf("not all nodes know level %d: %s", newest, strings.Join(old, ", "))
	case target <= l.Cluster:
		return l, l.Cluster, nil
	default:
		next.Finish = true
		return next, target, nil
	}
}

// ceiling returns the newest level that all listed nodes know and the pin allows.
func (l *Levels) ceiling(t *Table) shard.Level {
	ceiling := shard.Level(0)
	for i, n := range t.Listed() {
		levels, _ := l.Node(n.ID)
		if i == 0 || levels.Max < ceiling {
			ceiling = levels.Max
		}
	}
	if l.Pin != 0 {
		ceiling = min(ceiling, l.Pin)
	}
	return max(ceiling, l.Cluster)
}
