// Package gate says what a request counts that a proxy asks about: it makes entries out of the question of the proxy and the
// rules of a gate in the policies file. It answers nothing and decides nothing; package api does that.
//
//	path      one spelling for each path: a second one would be free
//	asked     which method, host and path the proxy asks about, and whose headers are believed
//	match     the route of a request
//	identity  who sent it: the subject of a token, an API key, or an address
//	Gate      the rules of one gate, ready to be asked
//
// Nothing that a client can write is believed, except for what proves who it is. What a proxy says is believed only if the
// connection comes from one of the gate's trusted proxies. And a text that a client can choose never makes a key of its own,
// which would be an empty count for whoever invents the next one.
//
// The package is pure: the verification of tokens comes in as a function. A Gate is immutable and may be used concurrently.
package gate
