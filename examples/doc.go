// Package examples is the recipes in the directories beside it, and the tests that keep them true. It has no code of its
// own.
//
// Each recipe is a directory with a policies file and a README.md: what it protects, the calls, and what they answer.
// The tests start the real binary with those policies, type every command of the README into a shell, and compare what
// comes back with what the README says comes back. So a recipe that no longer works fails the tests.
//
// The tests TestSeedRow* do the same for the rows of SEEDS.md, the list of what people must be able to switch from: each
// talks plain JSON over HTTP to real processes, one node or three, as a user would.
//
// Everything here is plain net/http, sh and curl: nothing of stint decides what an answer means.
package examples
