// Package gates answers proxies, which ask before they let a request through: it makes a check of each question, by the
// entries of package gate, and answers in the proxy's protocol. It never reads a body.
//
// A failure of ours is reported as a failure, never as a denial, and lets the request pass only if the route says so.
package gates
