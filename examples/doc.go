// Package examples contains the recipes in the directories beside it, and the tests that keep them correct. It has no
// code of its own.
//
// Each recipe is a directory with a policies file and a README.md, which says what the recipe protects and shows the
// calls and their answers. The tests start the real binary with those policies, run every command of the README in a
// shell, and compare the output with the README. So a recipe that no longer works fails the tests. The pages of
// docs/from, for users who come from another limiter, are tested in the same way.
//
// The tests TestSeedRow* check features that users of other limiters need to find here too. The numbers of the rows
// only tell them apart. Each test sends plain JSON over HTTP to real processes, one node or three, as a user would.
//
// Everything here is plain net/http, sh and curl: no code of stint decides what an answer means.
package examples
