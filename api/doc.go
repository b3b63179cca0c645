// Package api serves clients. One port answers Connect, gRPC and gRPC-Web with binary and JSON messages, health checks,
// reflection, /healthz, /readyz, /metrics, /log-level, /openapi.yaml and the dashboard at /ui/ (ui/: three files that
// call the API like any client). A second, optional port answers gRPC alone. The package translates messages into
// requests and decisions into messages; it decides nothing.
//
// It owns the wire contract (stint/v1/*.proto, from which `make generate` writes gen), the bounds on requests (R23),
// the codes and texts of errors, and the styles of rate-limit headers.
//
// It never knows the state of a key, the arithmetic of a limit, the place of a key, or how a decision becomes durable.
// A Decider does.
//
// # Authentication
//
// A guard (package internal/edge/auth) authenticates the caller before any of the body is read, and checks that the
// caller may call the procedure at all; each handler then checks every key, before any lookup. Streams are checked at
// every batch. Only health checks and the files of the dashboard need no authentication.
//
// # A request
//
//	codec      bytes -> message               unknown JSON fields are refused: a misspelled "cost" is not 1
//	ports      one procedure behind each entry point
//	gatekeeper a deadline for calls without one; code, detail and metric of an error
//	request    message -> shard.Request       pure; every bound, in one place
//	Decider    shard.Request -> shard.Result
//	decision   shard.Result -> message        pure; with headers and explain beside it
//
// Units spent on a key are also spent on the parent's key if its policy has a parent. Only this package adds the
// parent's entry, after the entries that the caller named.
//
// Every check of a batch is translated before the first is counted. An invalid check is answered with its failure; all
// others go to the Decider in one call.
//
// # Entry points
//
// A procedure is registered once and has three entry points with one meaning:
//
//	fast path  a POST of Connect's protocol with one message, JSON or binary: read and written here, over net/http
//	connect    everything else on that port: gRPC, gRPC-Web, GET, streams, and calls that the fast path cannot judge
//	grpc-go    the second port, which serves gRPC at half of connect's cost. That library decides two things: a message
//	           above 4 MiB is refused with resource_exhausted, and the room of an answer is given back when the answer
//	           is handed to the connection, which ends when its client does not answer pings
//
// Handwritten code (package api/wire) reads and writes the JSON of checks and of their answers, several times as fast
// as reflection. It also writes the binary answers. It leaves unusual input to the library, which is authoritative.
// Fuzz tests compare the two.
//
// # Events
//
// An admitted call has an exchange, which gathers its event (package internal/observe/decisions): keyHasher.Decide adds
// requests and decisions, and reporter.ended completes the event when the answer is made, and passes it to the
// listeners: traces, metrics, the log of calls, watchers, and the decision log. Each batch of a stream is a call with
// an exchange of its own.
//
// # Streams
//
// CheckStream is a sequence of CheckBatch calls: the answers come in the order of the batches, and up to 8 batches are
// decided at once. When a stream ends, all batches under way are answered first, and no further batch is begun. An
// error with a Failure therefore means that no batch without an answer was counted. Without a Failure (the connection
// broke), batches that were sent may have been counted. A node that stops ends its streams with unavailable (Drain).
//
// # Holds, refunds and changes by hand
//
// The ids of holds and decisions are sealed (shard.Sealer). An id names the counters and the units that were taken, so
// a settlement needs no search and a client cannot invent an id. A denial has no id. There are no ids until a node has
// its cluster's sealing secrets. An id sealed by an unknown secret is opened with the cluster's newest secrets; if its
// secret was dropped, the answer is failed_precondition. The answer to an extension seals the id anew. The actor of a
// change is the proven token, role or socket, with the stint-actor header as the person for whom it was made; without
// proof it is that header, which is not verified, else the address of the caller. The actor and the note of a change go
// to the audit log of the key's shard; Audit asks every shard for its log.
//
// Forget asks every shard, the key's own first, and repeats until none names the key any more: operations on several
// shards end in between.
//
// # Envoy
//
// envoyService answers envoy.service.ratelimit.v3 through the same entry points, by the rules of the policies file
// (policy.EnvoyDomain). It only translates: descriptors become the entries of a Peek (looks past the quota), then of
// one Check (all or nothing), then of a Count, of Checks in shadow and of AddUsed (negative hits), which deny nothing.
// Envoy takes every error for its fail mode, so a key that its policy does not know is over the limit, and not an
// error. A request that was counted while its caller went away ends as aborted.
//
// extAuthzService answers envoy.service.auth.v3: it translates what Envoy reports into a question at a gate (package
// api/gates), and the gate's answer back. It never answers with an error, either.
//
// # Edges
//
// An edge is a process with this API and no replica. A node admits its connections at EdgePath, by a token for the
// operation "edge": what comes over one is requests in the frames of package hop, which edgeService checks by the
// token's grants, decides and seals ids for, and documents (Config.Document). At the edge (Config.Upstream) the Decider
// sends those requests, and each procedure that is about more than the use of a key is passed on to a node, with the
// caller's token (passOn).
//
// # Watching
//
// Each decision, through any entry point and on the Redis port, becomes one event (package internal/observe/decisions).
// The exchange of a call keeps its decisions until its answer is made; a batch of a stream has an exchange of its own
// for that. Without listeners nothing is kept. Watch sends clients the events of this node, and those that a Watcher
// receives from the others: keys to callers that may see them, hashes to others. Keys that were counted as hashes are
// shown as hashes.
//
// # The cluster
//
// Calls about more than the answering node (Status, Drain, RemoveNode, Apply) go to a ClusterAdmin. None of them waits
// for the change that it begins; Status shows the progress. Apply compares the new policies with those that this node
// knows, which may be slightly out of date, and expected_version with the version in force. These calls are unavailable
// until a node knows its cluster.
//
// # Errors
//
// A denial is an answer with allowed = false. Every other answer without a decision is an error with a stint.v1.Failure
// detail; its maybe_applied says whether the request may have been counted:
//
//	invalid_argument      a field is wrong: the message names it
//	not_found             no such policy, or a key without an override where the policy refuses those
//	already_exists        the idempotency id was used for another request
//	failed_precondition   the idempotency id is too old to tell whether it ran; or the request came too late; or the hold
//	                      has ended, or its commit does not fit; or an Apply expected another version; or the cluster
//	                      cannot do it in its present state
//	unavailable           overload, draining, no majority, memory full, or the deadline passed before the request was
//	                      proposed: certainly not counted; with google.rpc.RetryInfo and Retry-After
//	aborted               it may have been counted once: retry with the same id. A request gets this error if its deadline
//	                      passes after it was proposed
//	deadline_exceeded     the deadline had passed when the call came in, and nothing was done. A client that ends a call by
//	                      its own timer reports the same code: such a call may have been counted
//	canceled              the client was gone before anything was done
//	unauthenticated       no token, or one that is not known, has expired or was revoked
//	permission_denied     the token or role does not allow it: the refusal does not tell what exists
//	unimplemented         a part of the contract that is not built yet
//
// Overload is never resource_exhausted, which a client of a rate limiter reads as a denial. A body of more than 1 MiB
// is invalid_argument. A node has room for 131,072 entries in calls with answers not yet written, and one call may take
// half of the room that is left; a call beyond that is unavailable. An answer must be read within 30 s. gzip is
// supported in both directions: a request is unpacked to at most 1 MiB; an answer of 64 KiB or more is packed if the
// client accepts that. A request that is no call at all (an unknown path, content type or compression) gets a sentence
// without a Failure.
//
// # JSON
//
// 64-bit numbers are strings, as protojson writes them: "quota": "100". Fields are lowerCamelCase. Numbers, texts and
// booleans are always present; an absent message (retryAfter, resetAt, windowStart) means "never" or "none".
//
// # Headers
//
// Decision.headers has Retry-After on every denial that ends, and the headers of the policy's styles. ietf shows every
// limit that can deny. x-ratelimit shows the limit that keeps the caller waiting longest, else the limit with least
// left. x-quota shows the limit named "daily", and "x-quota: month" that named "month"; a policy with this style and
// without that limit cannot be applied. Reset is the time when a limit that denied lets the request through, else when
// the limit is back at rest, in Unix seconds rounded up; with x-ratelimit-delta in seconds from now. x-ratelimit-github
// adds the used units and the policy. A blocked key has nothing remaining until the block ends.
//
// All exported functions and methods may be called concurrently.
//
// Ids such as S9 and R23 name rules of docs/guarantees.md and docs/rules.md.
package api
