// Package auth says who sent a request and what they may do. Every port asks it before it reads the body of a request, and again
// for each key that the request names.
//
// A token is a random secret with a record: its name, the SHA-256 of its text, when it expires, and its grants. A role is such
// a record without a secret; a client certificate proves it. A grant names operations and, for those about keys, the
// namespaces, policies, key prefixes and tiers that they may be about. Nothing is granted that no grant covers whole, and a
// refusal does not say what exists.
//
// The records are documents of the system shard, in buckets by name (Bucket), so that 10,000 of them fit and one can be
// replaced alone. Each node has them all in a Set, which is never changed; a Guard holds the newest one. To check a token costs
// one hash and one lookup, and nothing on the heap.
//
// The cluster asks for tokens from its first one on (Set.Required). Until then everybody may do everything at a port that only
// this machine reaches, and nobody anything elsewhere, unless the operator said that the network is trusted.
//
// The package reads no clock and no file, and knows no protocol. All functions and methods may be called concurrently.
package auth
