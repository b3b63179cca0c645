package policy

import _ "embed"

//go:embed dev.yaml
var devYAML string

// DevYAML returns the text of the policies that `stint serve --dev` installs, as a file to start from.
func DevYAML() string { return devYAML }

// Dev returns the Set of DevYAML.
func Dev() *Set {
	set, err := Parse("dev.yaml", []byte(devYAML))
	if err != nil {
		panic(err) // the text is part of the program
	}
	return set
}
