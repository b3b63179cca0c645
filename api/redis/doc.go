// Package redis is the way in for clients of Redis: RESP2 and RESP3 on a port of its own. It translates commands to requests
// and results to replies; it decides nothing. The README has the table of commands.
//
// What it owns: the parser and its bounds, the words of errors, the connections, and what waits for a call to a shard.
//
// What it never knows: the state of a key, and how a decision became durable. A Router does. Every reply stands for a decision
// that a majority has on disk; there is no command that only this node has carried out.
//
// # The way of a command
//
//	conn      reads what has arrived, parses all complete commands: a round
//	place     which shard each key lives on
//	lane      of one shard: what arrives while a call is under way goes together in the next one, from all connections
//	Router    Submit: one call, one result for each request
//	conn      when the last call of the round has come back: all replies in order, in one write
//
// A connection has one round at a time. Commands of one round for one key travel in one call, in order; so the commands of a
// connection take effect on a key in the order in which they were sent. Those for keys on different shards are decided at the
// same time, each by its own commit: a pipeline is no transaction. SET with GET is two requests that travel together.
//
// # Who runs what
//
// A connection has one goroutine, which reads and parses. A lane has one for each call under way; they end when nothing waits.
// The next call of a lane waits a moment for the connections that were just answered, as long as they have asked again at
// once so far: package convoy has the rule. A connection that is alone never waits, and Close ends every wait.
// Whoever ends the last call of a round writes its replies, as far as the socket takes them at once. What is left, for a
// client that does not read, is written by a goroutine of that connection alone; until then nothing more is read from it. So
// neither a slow client nor a shard without an owner holds up anybody else. The Server waits for all of them.
//
// # Bounds
//
// A command has at most 64 KiB and 1,024 arguments, a key 512 bytes, a round 1,024 commands. There are 10,000 connections, and 64 MiB for
// commands that are longer than 4 KiB and incomplete. 16,384 requests may wait for one shard and 131,072 for all: beyond, a command
// is answered TRYAGAIN. A reply must be read within 30 s. A command that is not decided within the request timeout, counted
// from when it was the first to wait for its call, is answered with its fate.
//
// # Errors
//
//	ERR       the command is wrong; nothing was counted
//	TRYAGAIN  overload, no owner, the node stops, no time left: certainly not counted. Clients of Redis Cluster ask again by themselves
//	OOM       the shard holds as many keys as it may; nothing was counted
//	UNKNOWN   the command was counted once, or not at all
//
// A denial is a reply and never an error; no error is a denial. RESP has no idempotency ids: a client that sends a command
// again after UNKNOWN, or after its connection broke, may count twice. Whoever needs to know uses the API.
//
// # Stop
//
// Close stops accepting, goes on answering connections until they have been quiet for a moment, and closes them.
package redis
