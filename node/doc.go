// Package node assembles one process and takes it apart again: it knows what needs what, in which order things start and
// stop, and it carries out what others decide. Where nodes and replicas should be is cluster's to say (Form, Plan,
// Reconcile, Align); this package does it and records that it was done.
//
// # Start
//
//	policies   a file that cannot be read must stop us before anything is touched
//	ports      API, Redis, gRPC and peer port: a second node started by mistake fails here, quickly and clearly
//	stores     the data directory, if there is one: locked and checked
//	router     nothing has an owner yet: requests wait within their deadlines
//	gossip     who else is there
//	API        from here on clients are answered, those of Redis too
//	cluster    found with others, found, or known from before; then the stores of a new node are made
//	peer port  knows its cluster: other nodes' Raft streams, requests and questions come in
//	pulse      asks the others how they are and what their clocks say
//	steward    makes and opens replicas as the table says; each opens an epoch as soon as its group leads
//
// Start returns when the API listens; AwaitReady when every shard can be served or forwarded.
//
// # The steward
//
// One goroutine looks, at least every 250 ms, at what the table says and what is there, and takes the steps between the
// two. Steps that take long are tasks beside it, at most one of a name at a time. It works on levels: what did not work
// is found undone the next time. The table is read from this node's own replica of the system shard or from what other
// nodes report, and may be old: roles only go forward and numbers are used once, so an old table asks for nothing that
// a newer one forbids.
//
//	reconcile  this node's replicas: create, open, close, destroy; say which were made and which are lost
//	align      a group that this node leads: add learners, promote those that caught up, remove the leaving
//	lead       hand a shard over to the node that the table wants to lead it
//	discharge  what a shard that this node owns owes others about operations on several shards: every 500 ms
//	plan       where the system shard is owned: change the table, by compare-and-set
//
// # Stop
//
//	say so          the others give us nothing any more; /readyz says no; answers ask clients of HTTP/1 to hang up
//	give away       every shard that this node owns goes to another voter: what is in flight ends, what queues is sent on
//	wait            one second in all, in which clients leave
//	steward         nothing is opened or moved any more
//	doors           new connections are refused; those that were begun are let in, for 200 ms at least
//	API             the requests under way end; they are forwarded by now. Streams end, and clients of gRPC are told to go
//	                elsewhere. First those of the Redis protocol: its clients cannot be asked to leave, so each connection
//	                is closed when it was quiet for a moment
//	router          what operations on several shards left to be done behind their callers ends, in two seconds
//	hops            those that others forwarded here end
//	replicas        actors, then groups; the others have their majority without us
//	the rest        pulse, gossip (with a goodbye), peer port, stores
//
// A disk that cannot be trusted any more ends the process without any of this (Done yields an error that is ErrDisk):
// whatever was answered is on disk, and a stop in order would wait for the disk.
//
// Start and Close are called once each, by one goroutine. The other methods may be called by any number.
package node
