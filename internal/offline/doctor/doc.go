// Package doctor is the engine of `stint doctor`: it looks at a running cluster, and says what is wrong, what may not go on so, and
// what to do about each.
//
// It counts on a key of its own through each node, asks each gate with a forged address, and reads what the nodes say of
// themselves. It changes nothing else.
package doctor
