// Package chaos holds tests that run the real binary on a real disk, kill it with SIGKILL at random moments under load,
// and make its disk fail. They need a Go toolchain to build the binary with, strace for the disk, and two minutes:
//
//	go test -tags chaos ./internal/chaos
//
// With the build tag "docker" it runs docker-compose.yml on a real engine; `make docker` makes the image before.
//
// Clusters are three nodes of internal/lab, and their clients are those of `stint verify`, which judge every answer:
// a storm of faults that overlap, owners killed one after the other, rolling restarts, nodes that join and leave, disks
// that are wiped or damaged. The environment makes them longer: STINT_CHAOS_DURATION (of the storm; 60s),
// STINT_CHAOS_KILLS (of owners; 8). STINT_CHAOS_SEED repeats the faults and the choices of the clients, not the
// interleaving.
//
// What they check: an answer that was given is never forgotten, a limit of N admits at most N whatever happens, and
// exactly N when clients ask again with their ids; a process whose disk failed ends with status 75. The clients are
// plain net/http: nothing of stint decides there.
package chaos
