// Package stintcaddy is a handler for Caddy that counts a request with stint before the next handler sees it: the
// module http.handlers.stint, and the directive stint of a Caddyfile. README.md is its manual.
//
// A Handler has a client of its own, from the load of a configuration to its end. What is counted, and how a request
// without a decision is answered, is that of client/stinthttp.
package stintcaddy
