// Package chaos holds tests that run the real binary on a real disk, kill it with SIGKILL at random moments under load,
// and make its disk fail. They need a Go toolchain to build the binary, strace for the disk faults, Prometheus for the
// alerts, and minutes:
//
//	go test -tags chaos ./internal/testing/chaos
//
// With the additional build tag "nextlevel", a cluster is upgraded node by node to a level that only a build with this
// tag knows: `make upgrade`.
//
// With the additional build tag "browser", an operator at a real Chromium uses the dashboard: `make dashboard`.
//
// With the build tag "docker", the package runs docker-compose.yml and the files of deploy/hosts.sh on a real engine;
// `make docker` builds the image first.
//
// Clusters are three nodes of internal/testing/testcluster. Their clients are those of `stint tool verify`, which
// judge every answer. The tests are storms of overlapping faults while slots move, pauses too short for an election,
// owners killed one after the other, rolling restarts, nodes that join and leave, and disks that are wiped or damaged.
// Environment variables make them longer: STINT_CHAOS_DURATION (of each storm, and of the pauses; 60s),
// STINT_CHAOS_KILLS (of owners; 8), STINT_CHAOS_ROUNDS (of rolling restarts; 1). STINT_CHAOS_SEED repeats the faults
// and the choices of the clients, not the interleaving.
//
// Clients of their own judge bills: they add up independently what each period must have, to the unit.
//
// The tests check that an answer is never forgotten, that a limit of N admits at most N whatever happens, and exactly N
// when clients retry with their ids, and that a process with a failed disk ends with status 75. The clients use plain
// net/http and no decision code of stint.
//
// An id such as G10 names a rule of docs/guarantees.md.
package chaos
