// The program caddy with the handler stint, as `xcaddy build` would write it.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/stint-io/stint/client/stintcaddy"
)

func main() { caddycmd.Main() }
