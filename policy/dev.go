package policy

import _ "embed"

//go:embed dev.yaml
var devYAML string

// Dev returns the policies that `stint serve --dev` installs.
func Dev() *Set {
	set, err := Parse("dev.yaml", []byte(devYAML))
	if err != nil {
		panic(err) // the text is part of the program
	}
	return set
}
