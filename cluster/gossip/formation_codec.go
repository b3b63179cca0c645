package gossip

import (
	"encoding/binary"
	"fmt"
	"math"
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

// appendFormation writes
//
//	shards uvarint, replicas uvarint, count uvarint, count x { same uvarint, text }
//
// For each founder, same is the length of the prefix that its id shares with the previous id, and text is the rest: ids
// of one cluster often differ by a number at the end. Cluster and Go are encoded elsewhere.
func appendFormation(b []byte, f *Formation) []byte {
	b = binary.AppendUvarint(b, uint64(f.Shards))
	b = binary.AppendUvarint(b, uint64(f.Replicas))
	b = binary.AppendUvarint(b, uint64(len(f.Founders)))
	last := ""
	for _, node := range f.Founders {
		same := 0
		for same < min(len(last), len(node)) && last[same] == node[same] {
			same++
		}
		b = appendText(binary.AppendUvarint(b, uint64(same)), node[same:])
		last = node
	}
	return b
}

// cutFormation reads the output of appendFormation from the front of b. The caller still has to check the founders.
func cutFormation(b []byte, f *Formation) (rest []byte, err error) {
	var shards, replicas, count uint64
	for _, field := range []struct {
		value *uint64
		most  uint64
	}{{&shards, math.MaxUint32}, {&replicas, math.MaxInt32}, {&count, uint64(len(b) / 2)}} {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > field.most {
			return nil, errMetaCut
		}
		*field.value, b = v, b[n:]
	}
	f.Shards, f.Replicas = uint32(shards), int(replicas)
	last := ""
	for range count {
		same, n := binary.Uvarint(b)
		if n <= 0 || same > uint64(len(last)) {
			return nil, errMetaCut
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > nodeBytesMax || size > uint64(len(b)-n-m) {
			return nil, errMetaCut
		}
		end := n + m + int(size)
		last = last[:same] + string(b[n+m:end])
		f.Founders, b = append(f.Founders, last), b[end:]
	}
	return b, nil
}
