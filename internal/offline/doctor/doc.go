// Package doctor is the engine of `stint doctor`: it examines a running cluster, and reports faults, risks, and what to
// do about each.
//
// It counts on a key of its own through each node, asks each gate with a forged address, and reads the nodes' reports
// about themselves. It changes nothing else.
package doctor
