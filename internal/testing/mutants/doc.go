// Package mutants shows that the tests detect missing guards. It contains only tests.
//
// Tests that pass prove nothing if they would also pass without the guards. So each guard is taken out once, in a copy
// of the source, and some tests must then fail. A mark stands beside the guard, and is named after the consequence of
// taking it out:
//
//	if len(path) > pathBytesMax { //mutant:path-of-any-length
//
// A mark behind code covers that line. One alone on a line covers the next line, and //mutant:name 3 covers three lines
// (lines that have only marks do not count). A line may have several marks. The tables here (shard_table_test.go and
// others) define by name how the lines become those of the mutant: they are removed, their condition never holds, or a
// part of them is replaced. And they name the cheapest tests that detect it. So a guard that moves takes its mark
// along, and the tables stay.
//
//	go test ./internal/testing/mutants                         marks and tables fit, and each mutant parses; one is judged
//	make mutants                                       each mutant is judged
//	make mutants MUTANTS=shard                         those that the tests of package shard judge
//	make mutants MUTANTS=path-of-any-length            this one
//	make mutants-changed SINCE=origin/main HASH=text   those in what has changed, and some more that the text draws
//
// A mutant is chosen for its change if its file, the package that judges it, or its line in the tables has changed.
//
// Some mutants show in whole clusters only, or in worlds that a test draws: a run of these tests may miss the mutant.
// The tables mark them (lucky): mutants-changed leaves them out, and make mutants plays them up to three times.
//
// Ids such as R1 and G10 name rules of docs/rules.md.
package mutants
