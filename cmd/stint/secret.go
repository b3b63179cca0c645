package main

import (
	"fmt"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// secretCommand has the commands about the secrets that seal ids.
type secretCommand struct {
	List    secretListCommand    `cmd:"" default:"withargs" help:"List the secrets that ids of holds and decisions are sealed with, without the secrets themselves."`
	Rotate  secretRotateCommand  `cmd:"" help:"Seal new ids with a new secret; the former one opens ids for 31 days."`
	DropOld secretDropOldCommand `cmd:"" help:"Drop every secret but the one that seals, after a theft. Ids that they have sealed are refused."`
}

type secretListCommand struct {
	asking
}

// Run lists the secrets.
func (c *secretListCommand) Run(s streams) error {
	answer, err := c.remote.sealingSecrets("secret list")
	return show(s, c.output, answer, err, printSecrets)
}

func printSecrets(s streams, m *stintv1.ListSecretsResponse) {
	printTable(s, "NUMBER\tMADE\tSTATE\tUNTIL", m.Secrets, func(one *stintv1.Secret) []any {
		return []any{one.Number, instantOr(one.MadeAt, "with the cluster"), one.State, instantOr(one.EndsAt, "-")}
	})
	if len(m.WaitingFor) > 0 {
		fmt.Fprintln(s.out, rotationLine(m))
	}
}

// sealingSecrets fetches the secrets on behalf of a command.
func (r remote) sealingSecrets(command string) (*stintv1.ListSecretsResponse, error) {
	return ask(r, command, "", r.secrets().List, &stintv1.ListSecretsRequest{})
}

// rotationLine describes what a rotation waits for.
func rotationLine(m *stintv1.ListSecretsResponse) string {
	if len(m.WaitingFor) == 0 {
		return "the nodes take the next step"
	}
	return "the rotation waits for " + strings.Join(m.WaitingFor, ", ")
}

// rotated reports whether a rotation to a secret is complete: it seals, and no node seals with another one.
func rotated(m *stintv1.ListSecretsResponse, number uint32) bool {
	for _, one := range m.Secrets {
		if one.Number == number && one.State != "seals" || one.Number < number && one.EndsAt == nil {
			return false
		}
	}
	return true
}

type secretRotateCommand struct {
	Wait time.Duration `help:"How long to wait until all nodes seal with it; 0: not at all." default:"30s"`
	remote
}

// Run begins the rotation and waits for its end.
func (c *secretRotateCommand) Run(s streams) error {
	answer, err := ask(c.remote, "secret rotate", "it may have begun all the same: see stint cluster secret",
		c.secrets().Rotate, &stintv1.RotateSecretRequest{})
	if err != nil {
		return err
	}
	number := answer.Number
	if c.Wait > 0 {
		err := awaitEnd(s, "secret rotate", c.Wait, "stint cluster secret", func() (string, error) {
			m, err := c.remote.sealingSecrets("secret rotate")
			if err != nil || rotated(m, number) {
				return "", err
			}
			return rotationLine(m), nil
		})
		if err != nil {
			return err
		}
	}
	verdict := "secret %d seals; the former one opens ids for 31 days\n"
	if c.Wait <= 0 {
		verdict = "secret %d seals as soon as all nodes know it: see stint cluster secret\n"
	}
	fmt.Fprintf(s.out, verdict, number)
	return nil
}

type secretDropOldCommand struct {
	remote
}

// Run drops the old secrets.
func (c *secretDropOldCommand) Run(s streams) error {
	return asked(s, asking{remote: c.remote}, "secret drop-old", "it may have been done: see stint cluster secret",
		c.secrets().DropOld, &stintv1.DropOldSecretsRequest{},
		func(s streams, m *stintv1.DropOldSecretsResponse) {
			fmt.Fprintf(s.out, "dropped %s: within a second no node settles what is sealed with it\n",
				numberList(m.Numbers))
		})
}
