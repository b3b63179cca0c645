//go:build !chaos

package main

import "time"

// now is the wall clock of serve. A build with the tag chaos has one that can be made to jump.
var now = time.Now
