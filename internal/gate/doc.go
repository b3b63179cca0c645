// Package gate determines what a request counts when a proxy asks about it: it makes entries from the question of the
// proxy and the rules of a gate in the policies file. It answers nothing and decides nothing; package api does that.
//
//	path      a canonical form for each path: a second spelling would be free
//	question  the method, host and path that the proxy asks about, and which headers are believed
//	matcher   which requests a route is for
//	route     what the requests of a route count
//	sender    the client: the subject of a token, an API key, or an address
//	Gate      the rules of one gate, prepared for questions
//
// Input from clients is not believed, except for proofs of identity. Headers of a proxy are believed only if the
// connection comes from one of the gate's trusted proxies. And text that a client can choose never makes a key of its
// own: each invented text would have a new, empty count.
//
// The package is pure: the verification of tokens comes in as a function. A Gate is immutable and may be used
// concurrently.
package gate
