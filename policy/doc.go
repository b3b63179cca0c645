// Package policy defines rate-limiting policies: named sets of limits, the numbers that tiers give them, and the checks
// that a file of policies must pass.
//
// It owns the YAML format of a policies file (Parse), the checks on it, and the limits of a policy and tier
// (Policy.Resolve). They are computed once for each tier, so that a call costs a map lookup. A key may have numbers of
// its own, an Override. Its limits are computed on each call (Policy.ResolveFor).
//
// A field of the file is written once: as the tags of a Go field (the type field in field.go says which). Parse,
// Format, Diff, the nodes from which package api makes its messages, and the JSON Schema for editors (JSONSchema) come
// from the tags. Checks that involve several fields are Go code. To add a field, add a Go field with its tags and a
// field of the same name to the message in api/stint/v1.
//
// Holds, lockouts, changes and parents are only data here. Package shard implements them.
//
// The package does not know how a limit counts; package limit does, and validates each limit's numbers. It knows
// nothing of usage, keys, time, files or the network. The caller reads the file.
//
// A file is accepted as a whole or rejected as a whole. Parse reports every problem that it finds, each with its line
// and the path of its field. An unknown field is rejected: ignoring it would enforce a policy other than the one in the
// file. YAML aliases are rejected as well; without them the work of a parse is bounded by the size of the file.
//
// Names of policies, limits, tiers and units consist of a-z, 0-9, "_", "." and "-", start with a letter or a digit, and
// have at most 64 bytes.
//
// A Set and its policies are immutable: any number of goroutines may read them. Everything else here is for one
// goroutine at a time, unless its comment says otherwise.
//
// The package is a public API: programs may use it to check and compare files of policies.
//
// Ids such as X11 and X12 name rules of docs/rules.md.
package policy
