// Package clientaddr finds out who is at the other end of a request that came through proxies.
//
// A connection from elsewhere than a trusted proxy is its client's own, and its headers say nothing. A trusted proxy says in
// X-Forwarded-For who connected to it; of that list, only the part that trusted proxies wrote counts.
//
// The gate of the API and the middlewares of the client share this rule. It reads no socket and keeps no state; everything may
// be used concurrently.
package clientaddr
