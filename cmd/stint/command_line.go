package main

import (
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// commandLine has one field for each command. Help lists them in the order of the fields, by group.
type commandLine struct {
	Serve   serveCommand   `cmd:"" group:"serve" help:"Run a node."`
	Edge    edgeCommand    `cmd:"" group:"serve" help:"Run an edge: the ports of a node, for a cluster elsewhere."`
	Status  statusCommand  `cmd:"" group:"serve" help:"Show nodes, shards and what is wrong. Exit code 1: not healthy."`
	Doctor  doctorCommand  `cmd:"" group:"serve" help:"Look for what is wrong, and say what to do."`
	Shards  shardsCommand  `cmd:"" group:"serve" help:"Show which shards have the keys, and have more or fewer share them."`
	Cluster clusterCommand `cmd:"" group:"serve" help:"Drain and remove nodes, upgrade, rotate the sealing secret."`
	Token   tokenCommand   `cmd:"" group:"serve" help:"Tokens that requests prove themselves with."`
	Backup  backupCommand  `cmd:"" group:"serve" help:"Write all that a running cluster knows into a file."`
	Restore restoreCommand `cmd:"" group:"serve" help:"Make a new cluster from a backup, offline."`

	Policies policiesCommand `cmd:"" group:"keys" help:"List the policies in force."`
	Apply    applyCommand    `cmd:"" group:"keys" help:"Put a policies file in force."`
	Check    checkCommand    `cmd:"" group:"keys" help:"Ask whether a key may spend, and count it. Exit code 3: denied."`
	Get      getCommand      `cmd:"" group:"keys" help:"Show what a key has used; --explain: what would be decided."`
	Reserve  reserveCommand  `cmd:"" group:"keys" help:"Hold units now, to be settled later. Exit code 3: denied."`
	Settle   settleCommand   `cmd:"" group:"keys" help:"End or extend a hold, or refund a decision."`
	Adjust   adjustCommand   `cmd:"" group:"keys" help:"Change what a key has used, or block it."`
	Override overrideCommand `cmd:"" group:"keys" help:"Give one key a tier or quotas of its own; list such keys."`
	Keys     keysCommand     `cmd:"" group:"keys" help:"List the keys that are kept, show the busiest, forget one."`
	Leases   leasesCommand   `cmd:"" group:"keys" help:"List who holds leases of which keys."`

	Usage usageCommand `cmd:"" group:"usage" help:"List what the meters of the policies have billed."`
	Audit auditCommand `cmd:"" group:"usage" help:"List who changed what by hand."`
	Watch watchCommand `cmd:"" group:"usage" help:"Show decisions as they are made."`
	Sink  sinkCommand  `cmd:"" group:"usage" help:"Places that events are posted to, and the events that wait."`

	Tool    toolCommand    `cmd:"" group:"tool" help:"Load, verify, simulate, import, certificates, recovery."`
	Version versionCommand `cmd:"" hidden:"" help:"Show the version of this program, as --version does."`
}

// groups are the titles of the groups of commands in the help.
var groups = kong.ExplicitGroups([]kong.Group{
	{Key: "serve", Title: "Serve and cluster:"},
	{Key: "keys", Title: "Policies and keys:"},
	{Key: "usage", Title: "Usage and events:"},
	{Key: "tool", Title: "Tools:"},
})

// clusterCommand has the commands that change a cluster or one of its nodes.
type clusterCommand struct {
	Drain      drainCommand      `cmd:"" help:"Let a node hand its shards over, so that it can be stopped."`
	RemoveNode removeNodeCommand `cmd:"" help:"Take a node out of the cluster for good."`
	LogLevel   logLevelCommand   `cmd:"" help:"Show or change how much a node logs, while it runs."`
	Upgrade    upgradeCommand    `cmd:"" help:"Show and raise the feature level of a cluster that runs a new release."`
	Secret     secretCommand     `cmd:"" help:"List, rotate and drop the secrets that ids of holds and decisions are sealed with."`
}

// toolCommand has the commands that are not part of running a cluster.
type toolCommand struct {
	Bench       benchCommand       `cmd:"" help:"Put load on a server, measure it, and audit what it admitted."`
	Verify      verifyCommand      `cmd:"" help:"Prove that a cluster counts exactly, while nodes fail."`
	Simulate    simulateCommand    `cmd:"" help:"Replay a log against policies, without a server."`
	Import      importCommand      `cmd:"" help:"Turn the configuration of another rate limiter into a policies file."`
	Certs       certsCommand       `cmd:"" help:"Make certificates, for nodes and clients, with an authority of your own."`
	Recover     recoverCommand     `cmd:"" help:"Make a backup from the disks that are left of a cluster, offline."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask whether a server is ready. For containers, which have no curl."`
}

// modelOf returns a commandLine with the named command alone: parsing with all commands takes two thirds of the time of
// a short command. If there is no such command, it returns all, for the help and the suggestions.
func modelOf(name string) any {
	all := reflect.TypeFor[commandLine]()
	for i := range all.NumField() {
		if field := all.Field(i); strings.EqualFold(field.Name, strings.ReplaceAll(name, "-", "")) {
			return reflect.New(reflect.StructOf([]reflect.StructField{field})).Interface()
		}
	}
	return &commandLine{}
}
