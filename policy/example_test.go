package policy_test

import (
	"errors"
	"fmt"

	"github.com/stint-io/stint/policy"
)

const file = `
policies:
  api:
    default_tier: free
    limits:
      - {name: minute, quota: 60, sliding_window: {period: 1m}}
      - {name: month, quota: 10000, calendar: {unit: month, time_zone: UTC}}
    tiers:
      free: {}
      pro: {month: {quota: 250000}}
`

// A file is accepted as a whole. A policy's limits depend on the tier of the key.
func ExampleParse() {
	set, err := policy.Parse("policies.yaml", []byte(file))
	if err != nil {
		fmt.Println(err)
		return
	}
	api, _ := set.Lookup("api")
	for _, tier := range []string{"", "pro"} {
		limits, _ := api.Resolve(tier)
		fmt.Printf("%q:", tier)
		for _, l := range limits {
			fmt.Printf(" %s %d", l.Name, l.Quota)
		}
		fmt.Println()
	}
	// Output:
	// "": minute 60 month 10000
	// "pro": minute 60 month 250000
}

// A file with mistakes is rejected as a whole, with the place of each of them.
func ExampleParse_mistakes() {
	_, err := policy.Parse("policies.yaml", []byte(`
policies:
  login:
    limits:
      - {name: tries, quota: -5, fixed_window: {period: 15m}}
      - {name: tries, quota: 5, sliding_log: {perod: 15m}}
`))
	var mistakes *policy.ParseError
	if errors.As(err, &mistakes) {
		fmt.Println(mistakes)
	}
	// Output:
	// policies.yaml:5:23: login.limits[tries].quota: must not be negative
	// policies.yaml:6:10: login.limits[tries].name: limits[0] is named tries too
	// policies.yaml:6:33: login.limits[tries].sliding_log.period: is missing
	// policies.yaml:6:47: login.limits[tries].sliding_log.perod: is unknown here: did you mean period? Known are period
}

// Diff tells what a new file would change, which is what apply --diff shows.
func ExampleDiff() {
	before, _ := policy.Parse("old.yaml", []byte("policies: {login: {limits: [{name: a, quota: 5, lifetime: {}}]}}"))
	after, _ := policy.Parse("new.yaml", []byte("policies: {otp: {limits: [{name: a, quota: 3, lifetime: {}}]}}"))
	for _, c := range policy.Diff(before, after) {
		fmt.Println(c.Name, "before:", c.Before != nil, "after:", c.After != nil)
	}
	// Output:
	// login before: true after: false
	// otp before: false after: true
}
