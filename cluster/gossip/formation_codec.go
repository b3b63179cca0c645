package gossip

import (
	"fmt"
	"math"

	"github.com/stint-io/stint/shard/codec"
)

// check reports whether a formation is valid for a cluster.
func (f *Formation) check(cluster string) error {
	switch {
	case f.Cluster == "" || f.Cluster != cluster:
		return fmt.Errorf("formation: it is of cluster %q, and the node of %q", f.Cluster, cluster)
	case len(f.Founders) == 0:
		return fmt.Errorf("formation: cluster %q has no founders", f.Cluster)
	case f.Replicas < 0 || f.Replicas > math.MaxInt32:
		return fmt.Errorf("formation: %d replicas", f.Replicas)
	}
	for i, node := range f.Founders {
		if err := checkNode(node); err != nil {
			return err
		}
		if i > 0 && node <= f.Founders[i-1] {
			return fmt.Errorf("formation: founder %q does not come after %q", node, f.Founders[i-1])
		}
	}
	return nil
}

// code is one pass over
//
//	shards uvarint, replicas uvarint, count uvarint, count x { same uvarint, text }
//
// For each founder, same is the length of the prefix that its id shares with the previous id, and text is the rest: ids
// of one cluster often differ by a number at the end. Cluster and Go are encoded elsewhere. The caller has to check
// what was read.
func (f *Formation) code(c *codec.Codec) {
	codec.Uint(c, &f.Shards, math.MaxUint32)
	codec.Uint(c, &f.Replicas, math.MaxInt32)
	last := ""
	codec.List(c, &f.Founders, math.MaxInt, func(node *string) {
		same := 0
		for same < min(len(last), len(*node)) && last[same] == (*node)[same] {
			same++
		}
		rest := (*node)[same:]
		codec.Uint(c, &same, uint64(len(last)))
		if c.Text(&rest); len(rest) > nodeBytesMax {
			c.Fail()
		}
		if last = last[:same] + rest; c.Reading() {
			*node = last
		}
	})
}
