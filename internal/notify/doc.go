// Package notify brings events to the sinks of an operator: to a webhook signed as Standard Webhooks says, to Stripe as meter
// events, or to a receiver of CloudEvents such as OpenMeter. It knows neither shards nor policies: package node reads the events that wait and hands them over.
//
//	Sink      where events go: kind, address, secrets; the content of a document of the system shard
//	Message   one event in its form on the wire
//	Poster    sends one message once, and says how that ended: an Outcome
//	Schedule  which event is tried next, on which sink, and which is given up: pure, told the time
//
// # A try
//
// Only a status of 2xx is a success, and that a receiver has a message already: Stripe says it by 400 and an error that names the
// identifier, others by 409 to what they were sent before. Everything else is tried again: other statuses, redirects, which are not
// followed, a certificate that is not good for the name, a connection that ends, and silence for 15 s. 410 (gone) disables the sink; Stripe
// and receivers of CloudEvents say by 400 that no further try helps.
// Retry-After of 429 and 503 is obeyed. Nothing of an answer is kept; at most 16 KiB are read, for a second at
// most, and then the connection is closed.
//
// # Where a sink may be
//
// An operator who may make sinks must not reach by them what only a node reaches. So every address that a connection is made to is
// checked after the name was resolved (Poster's net.Dialer.Control): a name that resolves to something else at the second look
// gains nothing. Loopback, private, link-local, shared (CGNAT), multicast and other special addresses are refused, also in their
// IPv6 spelling, unless the node's own configuration allows them. Without TLS only allowed addresses are reached. No proxy is
// used, whatever the environment says.
//
// # Secrets
//
// A Secret shows itself in no text: not in logs, not in errors, not with %v. Its content is in the document, and, once, in the
// answer to whoever made it.
//
// A Poster may be used concurrently. A Schedule has one owner. There are no goroutines of this package but those of net/http,
// which Poster.Close ends with the idle connections.
package notify
