// Package keyhash replaces keys by their HMAC in namespaces that require it (R22). Keys may be e-mail addresses and
// phone numbers; in such a namespace everything that is routed, logged, stored, cached or sent between nodes is the
// hash.
//
// A hash keeps the two meanings of a key's parts. The parts between slashes: the parent of a hash is the hash of the
// parent, because each part is replaced by the hash of the key up to there. And the tag in braces, which puts keys on
// one shard: the hash has the hash of the tag in braces, in the part in which they close. Everything else of the key is
// gone:
//
//	user:ann@example.com    ->  3Yb0...            (22 characters)
//	{acme}/ann@example.com  ->  {w8Kx...}Qm1e.../P0zD...
//
// The hash is the first 128 bits of HMAC-SHA-256, in base64 with "-" and "_". The key of the HMAC is derived from a
// secret of the cluster and the namespace. So a data directory without the secret reveals no key to guessing, and equal
// keys of two namespaces cannot be matched. With both it can be done: the secret is beside the data (docs/security.md).
// Equal beginnings of keys up to a slash, and equal tags, are still equal.
//
// A key of more than PartsMax parts is refused: its hash would exceed the bound of a key.
//
// Everything here may be called concurrently. R22 names a rule of docs/rules.md.
package keyhash
