// Package clientaddr finds the client of a request that came through proxies.
//
// A connection that is not from a trusted proxy is its client's own, and its headers are ignored. A trusted proxy names
// its client in X-Forwarded-For; only the part of that list that trusted proxies wrote counts.
//
// The gate of the API and the middlewares of the client share this rule. It reads no socket and keeps no state;
// everything may be used concurrently.
package clientaddr
