//go:build !nightly

package sim

const nightly = false
