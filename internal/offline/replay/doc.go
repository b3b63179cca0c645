// Package replay shows what a policy would have done to past traffic. It reads events from a log and applies the
// policies of a set to each of them, in virtual time, with the evaluation code of a running shard. There is no server,
// no clock and no disk: each event is decided at its own time.
//
//	events, err := replay.Open(file.Name(), file, replay.Options{Year: 2017})
//	...
//	report, err := replay.Run(events, set, replay.Plan{Policies: []string{"login"}})
//	...
//	err = report.WriteText(os.Stdout) // for people; json.Marshal(report) for programs
//
// Compare does the same for two versions of a file, and shows which keys the new one would newly deny and newly admit.
//
// Input formats (Format):
//
//   - csv: a header with the columns time, key and, optionally, cost, in any order; then one event per line. The time
//     is RFC 3339 with or without a fraction, or Unix seconds or milliseconds. The first invalid line ends the reading
//     with an error.
//   - auth: a system log. An event is a failed login attempt over the network, keyed by the source address: sshd's
//     "Failed password", PAM's "authentication failure" of any program with an rhost, and a connection to ftpd, which
//     often does not report the password. "message repeated 5 times: [ ... ]" and "5 more authentication failures" are
//     five. If several reporters log the attempts of one process, the largest of their counts is used. The classic time
//     stamp has no year and no zone: it is read as UTC, in Options.Year, and continues in the next year when December
//     turns into January.
//   - combined: the access log of nginx and Apache (the common format also works, and so does a virtual host in front).
//     Each line is one event, keyed by the client address.
//
// In the two log formats a line that looks like an event but cannot be parsed is skipped and counted in the report: a
// log cut short by its rotation should not fail the whole replay. The same applies to a client that is not an address,
// such as "-", "unix:" and "UNKNOWN". The report says how many lines were read, how many were events, and how many were
// not (Reading). A log without any event is an error.
//
// Time never runs backwards. Events with the same time are decided at the same instant, in the order of the log. An
// event with an earlier time than the one before it is decided at that later time, and the report counts these events.
//
// Every policy runs alone, as if the others did not exist. A key's record is dropped once it no longer matters, so
// memory grows with the number of keys that are live at one time, and with the number of keys that were ever denied. A
// comparison counts each key of the log, so its memory grows with all of them.
//
// An event is a plain check. No holds are made or settled, so concurrency limits never fill. A lockout climbs only if a
// policy counts denials: count_denied with on_denied.
//
// There are no overrides: each key has the numbers of its tier, and counts as known to a policy that refuses unknown
// keys (unknown_key).
//
// Events, Run, Compare and their results must each be used by one goroutine at a time.
package replay
