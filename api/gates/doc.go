// Package gates answers proxies, which ask before they let a request through: each question is a check, made of what package gate
// says that the request counts, and each answer is in the words of the proxy. It never reads a body.
//
// What fails is ours. It is told as a failure, never as a denial, and lets the request pass only where the route says so.
package gates
