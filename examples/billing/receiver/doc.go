// Receiver takes the events of stint, and prints the mail that it would send to a customer whose quota is nearly used
// up.
//
//	stint sink create mail --kind webhook --url http://127.0.0.1:8081/events --events threshold > mail.secret
//	go run ./examples/billing/receiver -listen 127.0.0.1:8081 -secret-file mail.secret
//
// It refuses what is not signed as Standard Webhooks says, and counts each id once. verify is that of docs/billing.md.
// Copy what you need: the package is an example, and nothing imports it. A receiver for many nodes notes the ids in its
// database.
package main
