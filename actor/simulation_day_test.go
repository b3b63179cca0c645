//go:build !nightly

package actor

import "time"

// nightly is how long TestSimulation plays; 0: a fixed number of worlds.
const nightly time.Duration = 0
