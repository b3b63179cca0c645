// Package api is the way in: Connect, gRPC and gRPC-Web with binary and JSON messages, on one port with health,
// reflection, /healthz, /readyz and /metrics; and on a second port, if one is wanted, gRPC alone. It translates messages to requests and decisions to messages; it
// decides nothing.
//
// What it owns: the wire contract (stint/v1/*.proto, from which `make generate` writes gen), the bounds on what
// arrives (DESIGN.md, section 8), the words and codes of errors, and the styles of rate-limit headers.
//
// What it never knows: the state of a key, the arithmetic of a limit, where a key lives, and how a decision became
// durable. A Decider does.
//
// # A request
//
//	codec      bytes -> message               unknown JSON fields are refused: a misspelled "cost" is not 1
//	doors      one procedure behind each way in
//	edge       a deadline for calls without one; code, detail and metric of an error
//	request    message -> shard.Request       pure; every bound, in one place
//	Decider    shard.Request -> shard.Result
//	decision   shard.Result -> message        pure; with headers and explain beside it
//
// What is spent on a key whose policy has a parent is spent on the parent's key too: its entry is added behind those that
// the caller named, here and nowhere else.
//
// Every check of a batch is translated before the first is counted. Those that are wrong are answered with their
// failure, and all others go to the Decider in one call.
//
// # Doors
//
// A procedure is registered once and has three ways to it, with one meaning:
//
//	lane     a POST of Connect's protocol with one message, JSON or binary: read and written here, over net/http
//	connect  everything else on that port: gRPC, gRPC-Web, GET, streams, and what a lane is not sure about
//	grpc-go  the second port, which serves gRPC at half of connect's cost. Two things are as that library has them: a
//	         message above 4 MiB is refused with resource_exhausted, and the room of an answer is free when the answer
//	         is handed to the connection, which ends when its client does not answer pings
//
// JSON of checks and of their answers is read and written by hand (json_read.go, json_write.go), several times as fast as
// by reflection, and so are answers in binary (proto_write.go). What they are not sure about goes to the library, which has
// the last word; fuzz tests hold them to it.
//
// # Streams
//
// CheckStream is CheckBatch many times over: answers come in the order of the batches, 8 of which are decided at once.
// Whatever ends a stream, all batches that were begun are answered first, and none after them is begun. So an error with a
// Failure says of every batch without an answer that it was not counted. Without one (the connection broke) those that
// were sent may have been. A node that stops ends its streams with unavailable (Drain).
//
// # Holds, refunds and changes by hand
//
// The ids of holds and decisions are sealed (shard.Sealer): they say which counters a settlement is about and how much was
// taken, so it needs no search and a client can make none up. A denial has no id, and until a node knows how its cluster
// seals there are none. The actor of a change is the stint-actor header, which nobody verifies, else the address of the
// caller; with its note it goes to the audit log of the key's shard, and Audit asks every shard for its own.
//
// # The cluster
//
// What concerns more than the answering node (Status, Drain, RemoveNode, Apply) is asked of a ClusterAdmin. None of these
// calls waits for what it began: Status tells how far it is. Apply compares with the policies that this node knows, which
// may be a moment old, and its expected_version with those in force. Until a node knows its cluster they are unavailable.
//
// # Errors
//
// A denial is an answer with allowed = false. Everything else that is no decision is an error with a stint.v1.Failure
// detail, whose maybe_applied says whether the request may have been counted:
//
//	invalid_argument      a field is wrong: the message names it
//	not_found             no such policy
//	already_exists        the idempotency id was used for another request
//	failed_precondition   the idempotency id is too old to tell whether it ran; or the request came too late; or the hold
//	                      has ended, or its commit does not fit; or an Apply expected another version; or the cluster
//	                      cannot do that as it stands
//	unavailable           overload, draining, no majority, memory full, or the deadline passed before the request was
//	                      proposed: certainly not counted; with google.rpc.RetryInfo and Retry-After
//	aborted               it may have been counted once: ask again with the same id. So ends what was proposed when its
//	                      deadline passed
//	deadline_exceeded     the deadline was over when the call came in, and nothing was done. What a client says when its
//	                      own timer ends a call is the client's matter: that one may have been counted
//	canceled              the client was gone before anything was done
//	unimplemented         a part of the contract that is not built yet
//
// Overload is never resource_exhausted, which a client of a rate limiter reads as a denial. A body of more than 1 MiB
// is invalid_argument. A node has room for 131,072 entries in calls whose answers are not written yet, and a call may
// take half of what is left: beyond, it is unavailable. An answer must be read within 30 s. What is no call at all (an
// unknown path, content type or compression) has no Failure.
//
// # JSON
//
// 64-bit numbers are strings, as protojson has it: "quota": "100". Fields are lowerCamelCase. Numbers, texts and
// booleans are always there; an absent message (retryAfter, resetAt, windowStart) says "never" or "none".
//
// # Headers
//
// Decision.headers is filled when a policy names styles. ietf shows every limit that can deny; x-ratelimit shows the
// limit that keeps the caller waiting longest, else the one with least left; x-quota shows the limit named "daily".
// Reset is when a limit that denied lets the request through, else when it is back at rest, in Unix seconds rounded up.
// Of a key that is blocked nothing remains until the block ends.
//
// Everything may be called concurrently.
package api
