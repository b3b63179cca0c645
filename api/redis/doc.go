// Package redis serves clients of Redis: RESP2 and RESP3 on a port of its own. It translates commands into requests and
// results into replies; it decides nothing. docs/redis.md has the table of commands. Known scripts of limiters are
// commands too, by the sum of their text: docs/scripts.md.
//
// It owns the parser and its bounds, the texts of errors, the connections, and the requests that wait for a call to a
// shard.
//
// It never knows the state of a key, or how a decision becomes durable. A Router does. Every reply stands for a
// decision that a majority has on disk; no command runs on this node alone.
//
// # The path of a command
//
//	conn      reads the available bytes and parses all complete commands: a round
//	place     finds the shard of each key
//	queue     one for each shard: requests of all connections that arrive during a call go together in the next call
//	Router    Submit: one call, one result for each request
//	conn      after the last call of the round: all replies in order, in one write
//
// A connection has one round at a time. Commands of one round for one key travel in one call, in order, so the commands
// of a connection take effect on a key in the order in which they were sent. Commands for keys on different shards are
// decided at the same time, each by its own commit: a pipeline is no transaction.
//
// # Goroutines
//
// A connection has one goroutine, which reads and parses. A queue has one for each call under way. While most of the
// node's requests are for one shard, its calls leave one after the other, and the next one waits a moment for the
// connections that were just answered, as long as they have sent their next commands at once so far (package
// batchwait). If requests are spread over shards, calls do not wait, and a shard has up to eight calls under way. A
// lone connection never waits, and Close ends every wait. The goroutine that ends the last call of a round writes the
// round's replies, as far as the socket takes them at once. The rest, for a client that does not read, is written by a
// goroutine of that connection; nothing more is read from the connection until then. A slow client or a shard without
// an owner therefore delays no other client. The Server waits for all these goroutines.
//
// # Events
//
// A round is one call: when its replies are written, its event (package internal/observe/decisions) goes to the
// listeners, which are those of package api. The event names the command if all commands are the same, else it is a
// pipeline.
//
// # Bounds
//
// A command has at most 64 KiB and 1,024 arguments, a key 512 bytes, a round 1,024 commands. The listener bounds the
// number of connections. Incomplete commands longer than 4 KiB share 64 MiB. 16,384 requests may wait for one shard and
// 131,072 for all shards; a command beyond that is answered TRYAGAIN. A reply must be read within 30 s. A command that
// is not decided within the request timeout is answered with its fate. The timeout starts when the first command of its
// call begins to wait.
//
// # Errors
//
//	ERR       the command is wrong; nothing was counted
//	TRYAGAIN  overload, no owner, a stopping node, no time left: certainly not counted. Redis Cluster clients retry it
//	LOADING   a node that starts has not heard within the request timeout which tokens are valid; nothing was counted
//	OOM       the shard holds as many records as it may; nothing was counted
//	UNKNOWN   the command was counted once, or not at all
//
// A denial is a reply and never an error; no error is a denial. RESP has no idempotency ids: a client that retries a
// command after UNKNOWN, or after its connection broke, may count twice. A client that must rule this out uses the API.
//
// # Other protocols
//
// A web page can post to any port of its visitor's machine, and each line of the posted text would be a command. A line
// of HTTP (a request, a header) therefore ends the connection with an error anywhere in the input, and so does a TLS
// hello. Commands before it were carried out; later ones are not. POST and Host: also end the connection as commands in
// an array, as in Redis.
//
// # Stop
//
// Close decides the commands that were read and those that arrive within a moment. A connection that is quiet for that
// moment is closed. A connection that keeps sending is turned away: its next commands are answered TRYAGAIN, none of
// them is counted, and the connection ends after these replies. Later bytes are discarded until the client hangs up or
// is quiet for a moment, for at most two seconds. So even with busy clients, a stop lasts little longer than the calls
// under way.
package redis
