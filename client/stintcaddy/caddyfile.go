package stintcaddy

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("stint", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		return handler, handler.UnmarshalCaddyfile(h.Dispenser)
	})
	// A denied request costs no look-up of a password. A limit by account goes into a route, behind the authentication.
	httpcaddyfile.RegisterDirectiveOrder("stint", httpcaddyfile.Before, "basic_auth")
}

// UnmarshalCaddyfile implements caddyfile.Unmarshaler:
//
//	stint [<matcher>] {
//	    address   <base URL of a node>...
//	    token     <token>
//	    namespace <name>
//	    timeout   <duration>
//	    fail      closed|open
//	    limit     <policy> <key>|<name>=<value>...
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		option, args := d.Val(), d.RemainingArgs()
		if len(args) == 0 || len(args) > 1 && option != "address" && option != "limit" {
			return d.ArgErr()
		}
		switch option {
		case "address":
			h.Addresses = append(h.Addresses, args...)
		case "token":
			h.Token = args[0]
		case "namespace":
			h.Namespace = args[0]
		case "timeout":
			timeout, err := caddy.ParseDuration(args[0])
			if err != nil {
				return d.Errf("timeout: %v", err)
			}
			h.Timeout = caddy.Duration(timeout)
		case "fail":
			h.Fail = args[0]
		case "limit":
			limit, err := limitOf(d, args[0], args[1:])
			if err != nil {
				return err
			}
			h.Limits = append(h.Limits, limit)
		default:
			return d.Errf("stint has no option %s", option)
		}
	}
	return nil
}

// limitOf reads a key: a text, or parts.
func limitOf(d *caddyfile.Dispenser, policy string, args []string) (Limit, error) {
	limit := Limit{Policy: policy}
	for _, arg := range args {
		name, value, isPart := strings.Cut(arg, "=")
		switch {
		case isPart && !strings.Contains(name, "{"):
			limit.Parts = append(limit.Parts, Part{Name: name, Value: value})
		case len(args) == 1:
			limit.Key = arg
		default:
			return limit, d.Errf("the part %s of a key is not name=value", arg)
		}
	}
	return limit, nil
}

var _ caddyfile.Unmarshaler = (*Handler)(nil)
