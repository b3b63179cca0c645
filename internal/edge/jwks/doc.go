// Package jwks verifies tokens (JWT) of other issuers, with the keys that the issuer publishes (JWKS).
//
// A Source has the keys of one address. Its goroutine fetches them when it is opened, then once an hour, and sooner
// after a failure; Close ends the goroutine and waits for it. Until another fetch succeeds the old keys stay, so tokens
// with a known key stay valid while an issuer cannot be reached. Each fetch replaces all keys, so that a key that is
// withdrawn, or replaced under its name, proves nothing any more. Tokens with an unknown signing key cause a fetch, but
// at most one a minute in all: any client can invent a token.
//
// Only the configured algorithms are accepted, regardless of the token's header, and never one with a shared secret.
//
// A Source may be used concurrently.
package jwks
