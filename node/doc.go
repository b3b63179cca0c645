// Package node assembles one process and takes it apart again: it knows which part needs which, and starts and stops
// them in that order. It carries out decisions that other packages make. Package cluster/placement says where replicas
// should be (Plan, Reconcile, Align) and cluster/gossip how a cluster begins (Form); this package makes it so and
// records that it was done.
//
// # Parts
//
// Node holds the parts and assemble connects them. Each part is a struct that is given what it needs, and owns its
// state alone. A part is given only parts that stand above it here. Two ways lead down: the view wakes the router, and
// documents exchange requests with the system shard through it.
//
//	tasks        long steps beside the reconciler's loop, at most one per name at a time
//	dataDir      the data directory, and what this node wrote down in it
//	ports        the clients' listeners and servers, and how many connections each may have
//	documents    the way to the system shard's documents, and those that nodes tell each other; each is a document
//	tokens       what this node knows of the cluster's tokens
//	replicaSet   the replicas that run here, the lost and the convicted ones
//	clusterView  what this node knows of the table, the policies, the feature levels and the secrets
//	staleReader  reads from this node's replicas, without a commit
//	peers        the peer port, the health probe and gossip: what this node knows of the others, and the way to them
//	duplicates   whether this process is the only one under its node's id
//	readiness    whether this node can do its part
//	(router)     cluster/routing and its hop: requests wherever their keys live
//	reporter     what this node says of itself, and what it learns from what the others say
//	admin        the API's calls about the whole cluster; tokenAdmin those about tokens, secretAdmin those about sealing secrets
//	sinkAdmin    the API's calls about sinks; dispatcher brings events to them, and pusher bills that are final
//	founder      joins a cluster, or founds one with others; writes the first table
//	handover     moves the leadership of groups to other nodes
//	succession   has groups elect another leader at once when the process of theirs has died
//	opener       opens and closes replicas; replicaObserver logs and counts what they notice
//	reconciler   what the table wants, done: with judge, aligner, planner, debts and canary
//
// Five kinds of goroutines are this package's own: run, which joins the cluster and then is the reconciler's, watchKey,
// which follows the cluster key file, those of the dispatcher and the pusher (Node.running waits for all of these, and
// the dispatcher for its tries), one for each task (tasks.wait), and one for each clients' port (ports.stop). All
// others belong to the parts of other packages, which are waited for when they are stopped.
//
// # Start
//
//	policies    an unreadable file must stop the start before anything is touched
//	ports       API, Redis, gRPC and peer port: a second node started by mistake fails here, quickly and clearly. The number of
//	            connections is bounded so that the disk keeps its file descriptors. A lone node has no peer port, unless its
//	            configuration tells it how to recognize other nodes
//	stores      the data directory, if there is one: locked and checked. A feature level newer than this binary's is refused
//	keys        the cluster key; on loopback a missing one is made
//	assemble    no shard has an owner yet: requests wait within their deadlines
//	place       a node that was removed from its cluster stops here, or as soon as it learns of its removal
//	gossip      finds the other nodes
//	API         from here on clients get replies, Redis clients too
//	founder     joined, founded together with others, or known from before; then a new node creates its stores
//	peer port   serves the known cluster: the Raft streams, requests and questions of other nodes come in
//	probe       asks the other nodes for their state and their clocks
//	reconciler  creates and opens replicas as the table says; each opens an epoch as soon as it leads its group
//
// Start returns when the API listens; AwaitReady when every shard can be served or forwarded.
//
// # The reconciler
//
// One goroutine compares the table with the replicas that exist, at least every 250 ms, and takes the steps between the
// two. Long steps are tasks beside it. The reconciler is level-triggered: a step that failed is
// found undone in the next round. The table comes from this node's own replica of the system shard or from the reports
// of other nodes, and may be old. That is safe because roles only go forward and numbers are used once: an old table
// never asks for anything that a newer one forbids.
//
//	duplicates nothing, until this process knows that no other one is its node
//	reconcile  this node's replicas: create, open, close, destroy; record which were created and which are lost
//	judge      compare the sums of this node's replicas with those that the others report; close convicted replicas
//	aligner    a group that this node leads: add learners, promote those that caught up, remove the leaving
//	handover   hand a shard over to the node that the table wants to lead it
//	debts      every 50 ms, what a shard that this node owns owes other shards for operations on several shards
//	budget     note how much of their memory for records the other nodes with a copy use
//	canary     once in as many minutes as there are nodes: count a key of this node's on each shard, and compare
//	planner    on the owner of the system shard: change the table, by compare-and-set
//
// # A replica with wrong records
//
// A bit may flip in this machine's memory. The sums of the records show it (placement.Judge), or a snapshot about to be
// written does (raftfsm). From that moment on the replica decides nothing, and hands over what it leads. Three seconds
// later it is closed for good (judge.dismiss), if the others are a majority of sound replicas without it. The
// conviction is on disk before the table hears that the replica is lost. Its stores are kept for a week at most
// (isEvidence), and the table replaces it under another number. Until then it votes: its log is as good as the others'.
// So a program fault that convicts all replicas at once stops the shard, and removes no log. The second conviction
// within a day drains the node. The process keeps running in any case.
//
// Where sums differ and no majority of the voters agrees, all of the replicas refuse requests (replica.dispute), with
// the epoch open and sums logged, until a majority agrees. Nothing of a dispute is kept: a restart rebuilds the records
// from the disk.
//
// # Stop
//
//	say so          the other nodes send nothing here any more; /readyz fails; replies ask HTTP/1 clients to disconnect
//	give away       every shard that this node owns goes to another voter: requests in flight end, queued ones are forwarded
//	wait            one second in all, in which clients leave
//	reconciler      opens and moves nothing from here on
//	doors           new connections are refused; those already begun are accepted, for at least 200 ms
//	API             pending requests end; they are forwarded by now. Streams end, and gRPC clients are told to go elsewhere.
//	                Redis connections come first: their clients cannot be asked to leave, so each connection is closed once
//	                it has been quiet for a moment, and one that never is quiet gets a refusal before it is closed
//	router          work that operations on several shards left to do after their callers were answered ends, within two seconds
//	hops            requests that other nodes forwarded here end
//	replicas        actors, then groups; the others have their majority without this node
//	the rest        probe, gossip (with a goodbye), peer port, stores
//
// A disk that can no longer be trusted ends the process without any of this (Done yields an error that is ErrDisk):
// every reply given is on disk, and an orderly stop would wait for the disk.
//
// Start and Close are called once each, by one goroutine. All other methods may be called concurrently.
//
// Ids such as R12 and X13 name rules of docs/rules.md.
package node
