package placement

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-io/stint/shard"
)

// Name returns the replica's name in its group, node/shard/number: its Raft id and its address.
func (r Replica) Name(id shard.ID) string { return fmt.Sprintf("%s/%d/%d", r.Node, id, r.Number) }

// ParseName reads a replica's name, node/shard/number, and returns the replica without its role, and its shard. A
// node's id may contain slashes, so the name is read from its end.
func ParseName(name string) (r Replica, id shard.ID, err error) {
	front, number, _ := cutLast(name)
	node, place, found := cutLast(front)
	id64, err := strconv.ParseUint(place, 10, 32)
	n, e := strconv.ParseUint(number, 10, 64)
	if err != nil || e != nil || !found || node == "" {
		return Replica{}, 0, fmt.Errorf("cluster: %q is not a replica's name (node/shard/number)", name)
	}
	return Replica{Node: node, Number: n}, shard.ID(id64), nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+1:], true
}
