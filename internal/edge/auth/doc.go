// Package auth authenticates callers and decides what they may do. Every port asks it before it reads the body of a
// request, and again for each key in the request.
//
// A token is a random secret with a record: its name, the SHA-256 of its text, its expiry, and its grants. A role is
// such a record without a secret; a client certificate proves it. A grant names operations and, for those about keys,
// the namespaces, policies, key prefixes and tiers that they may concern. One grant must cover a request as a whole,
// and a refusal does not reveal what exists.
//
// The records are documents of the system shard, in buckets by name (Bucket), so that 10,000 of them fit and each can
// be replaced alone. Each node has them all in a Set, which is never changed; a Guard holds the newest one. Checking a
// token costs one hash and one lookup, and no heap allocation.
//
// The cluster requires tokens from its first one on (Set.Required). Until then every caller may do everything at a port
// that only this machine reaches, and nothing elsewhere, unless the operator declared the network trusted.
//
// The package reads no clock and no file, and knows no protocol. All functions and methods may be called concurrently.
package auth
