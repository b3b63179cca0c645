// Command demo is `make demo`: three real nodes on loopback, one reverse proxy in front of a web server, 150 requests
// of one visitor, and the node that counts killed with SIGKILL in between. Exactly 100 requests pass.
//
// Each request that passes draws one character of picture.txt, which has exactly 100. A "?" in it is a request that was
// denied too early, and a "!" after it one that passed above the limit. Then it exits with 1.
//
// The package is not a public API. It needs Linux, Go and a stint binary. The nodes, their data and both servers end
// with it, also at Ctrl-C.
package main
