// Package policy is the book of rules: named sets of limits, the numbers that tiers give them, and what makes a file
// of them acceptable.
//
// It owns the YAML of a policies file (Parse), the checks on it, and the answer to "which limits hold for this policy
// and tier" (Policy.Resolve), which is computed once for each tier so that asking costs a map lookup. A key may have
// numbers of its own, an Override: what holds for it is worked out each time it is asked for (Policy.ResolveFor).
//
// What a policy says about holds, lockouts, changes and parents is only words here. Package shard does as they say.
//
// It never knows how a limit counts (package limit does, and judges each limit's numbers), what was counted, keys,
// time, files or the network. The caller reads the file.
//
// A file is taken as a whole or not at all. Parse reports every problem that it finds, each with its line and the path
// of its field. A field that it does not know is refused: ignoring it would
// enforce another policy than the one somebody wrote. YAML aliases are refused as well; without them the work of a
// parse is bounded by the size of the file.
//
// Names of policies, limits, tiers and units are made of a-z, 0-9, "_", "." and "-", start with a letter or a digit,
// and have at most 64 bytes.
//
// A Set and the policies in it are immutable: any number of goroutines may read them. Everything else here is for one
// goroutine at a time.
package policy
