// Package notify sends events to the sinks of an operator: to a webhook signed according to Standard Webhooks, to
// Stripe as meter events, or to a receiver of CloudEvents such as OpenMeter. It knows neither shards nor policies:
// package node reads the waiting events and hands them over.
//
//	Sink      a destination: kind, address, secrets; the content of a document of the system shard
//	Message   one event in its form on the wire
//	Poster    sends one message once, and returns how that ended: an Outcome
//	Schedule  which event is tried next, on which sink, and which is given up: pure, without a clock
//
// # An attempt
//
// Only a status of 2xx is a success, or an answer that the receiver has the message already: Stripe answers 400 with an
// error that names the identifier, others answer 409 to a repeated message. Everything else is tried again: other
// statuses, redirects, which are not followed, a certificate that does not match the name, a connection that ends, and
// silence for 15 s. 410 (gone) disables the sink; a 400 from Stripe and receivers of CloudEvents means that no further
// attempt helps, unless Stripe's breaks off before it says why. Retry-After of 429 and 503 is obeyed. Answers are not
// kept; at most 16 KiB are read, for a second at most, and then the connection is closed.
//
// # Allowed addresses
//
// An operator who may create sinks must not use them to reach addresses that only a node reaches. So the address of
// every connection is checked after the name was resolved (Poster's net.Dialer.Control): a name that resolves
// differently at a second lookup gains nothing. Loopback, private, link-local, shared (CGNAT), multicast and other
// special addresses are refused, also in their IPv6 form, unless the node's own configuration allows them. Without TLS
// only allowed addresses are reached. Proxies from the environment are ignored.
//
// # Secrets
//
// A Secret never appears in text: not in logs, not in errors, not with %v. Its content is in the document, and, once,
// in the answer to its creator.
//
// A Poster may be used concurrently. A Schedule has one owner. The package has no goroutines but those of net/http,
// which Poster.Close ends with the idle connections.
package notify
