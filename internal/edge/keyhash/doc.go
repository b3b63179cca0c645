// Package keyhash replaces keys by their HMAC where a namespace asks for it (R22). Keys are e-mail addresses and phone numbers; what
// is routed, logged, stored and cached in such a namespace, and what nodes send each other, is the hash.
//
// A hash keeps the two things that the parts of a key mean. The parts between slashes: the parent of a hash is the hash of the parent,
// because each part is replaced by the hash of the key up to there. And the tag in braces, which puts keys on one shard: the hash has
// the hash of the tag in braces, in the part in which they close. Everything else of the key is gone:
//
//	user:ann@example.com    ->  3Yb0...            (22 characters)
//	{acme}/ann@example.com  ->  {w8Kx...}Qm1e.../P0zD...
//
// The hash is HMAC-SHA-256, of which 128 bits are kept, in base64 with "-" and "_". The key of the HMAC is derived from a secret of the
// cluster and the namespace. So who has a data directory without the secret learns no key by trying, and equal keys of two
// namespaces cannot be matched. Who has both can: the secret is beside the data (docs/security.md). Equal beginnings of keys up to a
// slash, and equal tags, are still equal.
//
// A key of more than PartsMax parts would not fit into the bound of a key; it is refused.
//
// Everything here may be called concurrently. R22 names a rule of docs/guarantees.md.
package keyhash
