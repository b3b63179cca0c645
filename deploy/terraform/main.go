// Terraform-provider-stint keeps the policies, overrides, tokens and sinks of a stint cluster as Terraform says.
// README.md is its manual.
//
// A resource is a file: its schema, and what creating, reading, updating and deleting it calls. What they share is in
// managed_resource.go. The cluster is the truth: a read replaces what the state has.
package main

import (
	"context"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
)

func main() {
	options := providerserver.ServeOpts{Address: "registry.terraform.io/stint-io/stint"}
	if err := providerserver.Serve(context.Background(), newProvider, options); err != nil {
		log.Fatal(err)
	}
}
