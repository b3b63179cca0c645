// Package cluster is the part of stint that makes many nodes one system: which node decides a request, how the request
// gets there, where each shard lives, and which nodes there are. It has no code of its own. Its rooms, with the arrows
// of their imports pointing down:
//
//	routing      from a key to the owner of its shard, and back; operations on several shards
//	peer         the one TCP port between nodes: identities, TLS, and the reports nodes ask each other for
//	placement    the table of nodes and replicas; the plan for the cluster, the steps of one node and of one leader
//	gossip       which nodes answer, which one last opened a shard; the founding of a cluster
//	hop          forwarded requests: frames, windows, heartbeats
//
// routing uses placement, gossip and hop. peer uses placement and hop. placement uses gossip. Decisions are pure
// functions here, and package node wires the rooms together and carries the decisions out. No room knows what a request
// means, how an owner decides it, or how an entry is replicated.
//
// Ids such as X4 and R20 in the manuals name rules of docs/rules.md.
package cluster
