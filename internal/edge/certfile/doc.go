// Package certfile watches a certificate, its key and the authorities used with it, in PEM files. The port between
// nodes and the ports of clients use it, so both take new certificates in the same way.
//
// A Watcher holds the files' last valid content. Each use of the content, which is every handshake, checks whether the
// files have changed. So new certificates come into use without a restart, and a process without connections reads
// nothing. Files that cannot be used together, such as a new certificate beside the old key, leave the last good
// content in force, are logged once, and are tried again until they can be used. Established connections are not
// checked again.
//
// A Watcher owns its content, which is immutable. All methods may be called concurrently. There are no goroutines.
package certfile
