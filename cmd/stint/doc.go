// Command stint is the whole product in one binary: the server (serve), its clients (check, get, reserve, settle,
// adjust, override, audit, policies, healthcheck), the administration of a cluster (status, apply, drain, remove-node,
// upgrade, token, secret, backup), what needs no running node (restore, recover, certs), a replay of logs against
// policies without a server (simulate), a load generator that audits the server's answers (bench), and a proof of
// exactness on nodes that fail (verify).
//
// This package contains only the command line and makes no decisions. It reads flags, environment and config file into
// the configuration of another package, calls that package, and prints the result. Each command is a struct with a
// field for each flag and a Run method.
//
// Flags override environment variables (STINT_API_ADDR for --api-addr), which override the config file, which overrides
// the defaults. help.txt has what the help of a command says beside its flags.
//
// Results go to stdout and everything else to stderr. Exit codes:
//
//	0   done; check and reserve: allowed
//	1   failed; status: the cluster is not healthy; bench and verify: not exact
//	2   the command line or the config file is wrong, or a file that they name: see isUsage
//	3   check and reserve: denied
//	75  serve: the process stopped itself because a disk could not be trusted
package main
