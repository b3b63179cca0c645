// Go-web is a website with a login. Its limits are in policies.yaml, and stint counts them.
//
//	stint serve --dev --policies examples/go-web/policies.yaml
//	go run ./examples/go-web -stint http://127.0.0.1:7400 -listen 127.0.0.1:8080
//
// site.go is the website, page.html what people see, and site_test.go shows how to test limits by the clock of a stint
// in the test's own process. README.md explains the choices. Copy what you need: the package is an example, and nothing
// imports it.
package main
