//go:build !chaos

package main

import "time"

// now is the wall clock of serve. With the build tag chaos it can be made to jump.
var now = time.Now
