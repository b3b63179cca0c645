//go:build nightly

package actor

import "time"

// nightly is how long TestSimulation plays. Run it with -timeout 60m.
const nightly = 30 * time.Minute
