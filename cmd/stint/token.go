package main

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
)

// tokenCommand has the commands about tokens.
type tokenCommand struct {
	Create   tokenCreateCommand   `cmd:"" help:"Make a token, and print its secret once."`
	List     tokenListCommand     `cmd:"" help:"List tokens and roles, and when they were last used."`
	Rotate   tokenRotateCommand   `cmd:"" help:"Replace a token by a new one of the same rights."`
	Revoke   tokenRevokeCommand   `cmd:"" help:"End a token or role at once."`
	Off      tokenOffCommand      `cmd:"" help:"Stop requiring tokens until the next one is made."`
	Generate tokenGenerateCommand `cmd:"" help:"Draw a token for --admin-token-file, without a server."`
}

type tokenCreateCommand struct {
	Name    string   `arg:"" help:"Its name, which the audit log shows."`
	Grant   []string `sep:"none" help:"What it may do: 'ns=NAMESPACE policy=NAME key=PREFIX* tier=NAME ops=check,settle'. Repeat it for more." placeholder:"GRANT"`
	Admin   bool     `help:"It may do everything."`
	Expires string   `required:"" help:"When it ends: a duration as 720h or 30d, or never." placeholder:"DURATION"`
	Role    bool     `help:"Make a role, which a client certificate with the URI stint://role/NAME proves, and no secret."`
	asking
}

// Run makes the token. The secret alone goes to stdout, so that it can go into a file.
func (c *tokenCreateCommand) Run(s streams) error {
	request := &stintv1.CreateTokenRequest{Name: c.Name, Role: c.Role}
	switch {
	case c.Admin && len(c.Grant) > 0:
		return usagef("token create: --admin is everything: leave --grant out")
	case c.Admin:
		everything := auth.Everything()
		request.Grants = append(request.Grants, api.GrantMessage(&everything))
	case len(c.Grant) == 0:
		return usagef("token create: say what it may do: --grant 'ns=shop ops=check,settle', or --admin")
	}
	for _, text := range c.Grant {
		grant, err := auth.ParseGrant(text)
		if err != nil {
			return usagef("--grant: %w", err)
		}
		request.Grants = append(request.Grants, api.GrantMessage(&grant))
	}
	if c.Expires != "never" {
		length, err := policy.ParseDuration(c.Expires)
		if err != nil || length <= 0 {
			return usagef("--expires: %q is neither never nor a duration such as 720h or 30d", c.Expires)
		}
		request.ExpiresAt = timestamppb.New(time.Now().Add(length))
	}
	return asked(s, c.asking, "token create "+c.Name,
		"it may have been made: stint token list shows it; revoke it and make another one", c.tokens().Create, request,
		func(s streams, m *stintv1.CreateTokenResponse) {
			if c.Role {
				fmt.Fprintf(s.err, "role %s: a client certificate with the URI stint://role/%s proves it\n",
					c.Name, c.Name)
				return
			}
			fmt.Fprintln(s.out, m.Token)
			fmt.Fprintln(s.err,
				"This is shown once: keep it in a file that only its user can read, "+
					"and send it with --token-file or STINT_TOKEN.")
		})
}

type tokenListCommand struct {
	asking
}

// Run lists tokens and roles.
func (c *tokenListCommand) Run(s streams) error {
	return asked(s, c.asking, "token list", "", c.tokens().List, &stintv1.ListTokensRequest{}, printTokens)
}

func printTokens(s streams, answer *stintv1.ListTokensResponse) {
	if !answer.Required {
		fmt.Fprintln(s.out, "this cluster requires no tokens")
	}
	if len(answer.Tokens) == 0 {
		return
	}
	printTable(s, "NAME\tKIND\tLAST USED\tEXPIRES\tMAY DO", answer.Tokens, func(t *stintv1.Token) []any {
		kind := "token"
		if t.Id == "" {
			kind = "role"
		}
		var record auth.Record
		for _, g := range t.Grants {
			record.Grants = append(record.Grants, api.GrantOf(g))
		}
		return []any{t.Name, kind, instantOr(t.LastUsed, "-"), instantOr(t.ExpiresAt, "never"), record.TextOfGrants()}
	})
}

type tokenRotateCommand struct {
	Name    string        `arg:"" help:"The token."`
	Overlap time.Duration `help:"How long the former token is accepted beside the new one." default:"0s" placeholder:"DURATION"`
	asking
}

// Run replaces the token.
func (c *tokenRotateCommand) Run(s streams) error {
	return asked(s, c.asking, "token rotate "+c.Name, "it may have been done: rotate it again", c.tokens().Rotate,
		&stintv1.RotateTokenRequest{Name: c.Name, Overlap: durationpb.New(c.Overlap)},
		func(s streams, m *stintv1.RotateTokenResponse) { fmt.Fprintln(s.out, m.Token) })
}

type tokenRevokeCommand struct {
	Name     string `arg:"" help:"The token or role."`
	Children bool   `help:"Those that it has made end too, and those that they have made."`
	asking
}

// Run revokes the token.
func (c *tokenRevokeCommand) Run(s streams) error {
	return asked(s, c.asking, "token revoke "+c.Name, "it may have been done: stint token list shows it",
		c.tokens().Revoke, &stintv1.RevokeTokenRequest{Name: c.Name, Children: c.Children},
		func(s streams, m *stintv1.RevokeTokenResponse) { c.print(s, strings.Join(m.Children, ", ")) })
}

func (c *tokenRevokeCommand) print(s streams, children string) {
	switch {
	case children == "":
		fmt.Fprintf(s.out, "%s is revoked: within a second no node accepts it\n", c.Name)
	case c.Children:
		fmt.Fprintf(s.out, "%s is revoked, and what it has made: %s; within a second no node accepts them\n",
			c.Name, children)
	default:
		fmt.Fprintf(s.out,
			"%s is revoked: within a second no node accepts it\nwhat it has made is good still: "+
				"%s (stint token revoke NAME)\n",
			c.Name, children)
	}
}

type tokenOffCommand struct {
	asking
}

// Run stops requiring tokens until one is created.
func (c *tokenOffCommand) Run(s streams) error {
	return asked(s, c.asking, "token off", "it may have been done: stint token list shows it", c.tokens().TurnOff,
		&stintv1.TurnOffTokensRequest{},
		func(_ streams, _ *stintv1.TurnOffTokensResponse) {
			fmt.Fprintln(s.out, "the cluster requires no tokens now")
		})
}

type tokenGenerateCommand struct{}

// Run prints a new token.
func (*tokenGenerateCommand) Run(s streams) error {
	text, err := auth.NewToken(rand.Reader)
	if err == nil {
		fmt.Fprintln(s.out, text)
	}
	return err
}
