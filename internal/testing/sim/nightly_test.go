//go:build nightly

package sim

const nightly = true
