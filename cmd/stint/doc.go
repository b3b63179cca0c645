// Command stint is the whole product in one binary: the server (serve), its clients (check, get, reserve, settle,
// explain, adjust, override, audit, policies, healthcheck), those that run a cluster (status, apply, drain, remove-node), a
// replay of logs against policies without any server (simulate), a load generator that audits what it was told (bench),
// and a proof of exactness on nodes that fail (verify).
//
// This package holds the command line and nothing that decides: it reads flags, environment and config file into the
// configuration of another package, calls it, and prints what came back. Each command is a struct whose fields are its
// flags and whose Run method does it.
//
// Flags win over environment variables (STINT_API_ADDR for --api-addr), these over the config file, and that over the
// defaults.
//
// Results go to stdout and everything else to stderr. Exit codes:
//
//	0   done; check and reserve: allowed
//	1   failed; status: the cluster is not healthy; verify: not exact
//	2   the command line or the config file is wrong
//	3   check and reserve: denied
//	75  serve: stopped itself because a disk could not be trusted
package main
