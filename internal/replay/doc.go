// Package replay shows what a policy would have done to traffic that already happened. It reads events from a log and
// puts each to the policies of a set, in virtual time, through the evaluation that a running shard uses. There is no
// server, no clock and no disk: an event's own time is the time at which it is decided.
//
//	events, err := replay.Open(file.Name(), file, replay.Options{Year: 2017})
//	...
//	report, err := replay.Run(events, set, replay.Plan{Policies: []string{"login"}})
//	...
//	err = report.WriteText(os.Stdout) // for people; json.Marshal(report) for programs
//
// Compare does the same for two versions of a file, and shows whom the new one would newly deny and newly admit.
//
// What it reads (Format):
//
//   - csv: a header with the columns time, key and, if you like, cost, in any order; then one event a line. The time is
//     RFC 3339 with or without a fraction, or Unix seconds or milliseconds. The first line that does not fit ends the
//     reading with an error.
//   - auth: what sshd writes to auth.log. Each "Failed password" is one event, keyed by the source address; "message
//     repeated 5 times: [ Failed password ... ]" is five. Other lines are no events. The classic time stamp has no
//     year and no zone: it is read as UTC, in Options.Year, and passes into the next year where December meets January.
//   - combined: the access log of nginx and Apache (the common format does as well). Each line is one event, keyed by
//     the client address.
//
// In the two log formats a line that looks like an event but cannot be read is passed over, and the report counts it:
// a log cut short by its rotation should not cost the whole replay.
//
// Time never runs backwards. Events of one time are decided at the same instant, in the order of the log. An event with
// an earlier time than the one before it is decided at that later time, and the report counts how often that happened.
//
// Every policy runs alone, as if the others did not exist. What is remembered of a key is forgotten when it no longer
// matters, so memory grows with the keys that are live at one time, and with the keys that were ever denied. A comparison
// counts each key of the log, so there memory grows with all of them.
//
// An event is a plain check. Nothing is held and nothing is settled, so concurrency limits never fill, and a lockout only
// climbs where a policy says so of denials: count_denied with on_denied.
//
// Events, Run, Compare and what they return are each for one goroutine.
package replay
