package api

import (
	"sync"

	"github.com/stint-io/stint/limit"
)

// zones are the time zones that anybody has asked for, by name: a request that brings a calendar of its own loads none.
// There are no more than the time zone database has names.
var zones sync.Map

// zoneOf returns the zone of that name; "" is UTC. The error is a *limit.FieldError. It may be called concurrently.
func zoneOf(name string) (*limit.Zone, error) {
	if zone, known := zones.Load(name); known {
		return zone.(*limit.Zone), nil
	}
	zone, err := limit.LoadZone(name)
	if err != nil {
		return nil, err
	}
	first, _ := zones.LoadOrStore(name, zone)
	return first.(*limit.Zone), nil
}
