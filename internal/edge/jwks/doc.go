// Package jwks verifies tokens (JWT) that somebody else signs, with the keys that the signer publishes (JWKS).
//
// A Source has the keys of one address. Its goroutine fetches them when it is opened, then once an hour, and sooner after a
// failure; Close ends the goroutine and waits for it. Until another fetch succeeds the old keys stay, so a signer that cannot be
// reached stops nobody whose key is known. What is fetched replaces them all, so that a key that is withdrawn, or replaced under its name,
// proves nothing any more. A token that no known key has signed asks for a fetch, but all of them together for one in a minute:
// anybody can invent a token.
//
// Only the named algorithms are accepted, whatever the token says of itself, and never one with a shared secret.
//
// A Source may be used concurrently.
package jwks
