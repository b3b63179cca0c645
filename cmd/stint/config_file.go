package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/stint-io/stint/node"
	"go.yaml.in/yaml/v4"
)

// configFile supplies the flags of serve with values from the file of --config. It is for one parse.
type configFile struct {
	loaded bool                   // the file was looked for, whether there is one or not
	values map[string]configValue // by flag name
	used   map[string]string      // location of each value that neither a flag nor the environment replaced
}

// configValue is a value of the file and its location, as in stint.yaml:3.
type configValue struct{ text, where string }

var _ kong.Resolver = (*configFile)(nil)

// configError is a fault of the config file. The parser would blame it on the flag that it looked up first.
type configError struct{ error }

// Validate implements kong.Resolver.
func (c *configFile) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver. It returns nil if the file has no value for the flag, or must have none.
func (c *configFile) Resolve(parsed *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	command := parent.Node()
	if command == nil || command.Name != "serve" || !configurable(flag) {
		return nil, nil
	}
	if !c.loaded {
		if err := c.load(parsed, command); err != nil {
			return nil, configError{err}
		}
	}
	value, ok := c.values[flag.Name]
	if !ok || inEnvironment(flag) {
		return nil, nil
	}
	// Parse the value here first, for an error with its location.
	scratch := reflect.New(flag.Target.Type()).Elem()
	if err := flag.Parse(kong.Scan().PushTyped(value.text, kong.FlagValueToken), scratch); err != nil {
		return nil, configError{fmt.Errorf("%s: %w", value.where, err)}
	}
	c.used[flag.Name] = value.where
	return value.text, nil
}

// locate puts file and line before an error about a value of the file. Such an error begins with the field.
func (c *configFile) locate(err error) error {
	if err == nil || !isUsage(err) {
		return err
	}
	field, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), node.ErrConfig.Error()+": "), ":")
	where, ok := c.used[strings.TrimPrefix(field, "--")]
	if !ok {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// configurable reports whether the file may have a flag: one that has a variable, except --config itself.
func configurable(flag *kong.Flag) bool { return flag.Name != "config" && len(flag.Envs) > 0 }

// inEnvironment reports whether a variable sets the flag. It relies on forgetVariables.
func inEnvironment(flag *kong.Flag) bool {
	return slices.ContainsFunc(flag.Envs, func(name string) bool {
		_, set := os.LookupEnv(name)
		return set
	})
}

// load reads the file that --config names, or else STINT_CONFIG. Without either there are no values.
func (c *configFile) load(parsed *kong.Context, command *kong.Node) error {
	c.loaded, c.used = true, map[string]string{}
	var path string
	var known []string
	for _, flag := range command.Flags {
		if flag.Name == "config" {
			path, _ = parsed.FlagValue(flag).(string)
			if path == "" {
				path = os.Getenv("STINT_CONFIG")
			}
		} else if configurable(flag) {
			known = append(known, flag.Name)
		}
	}
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	c.values, err = parseConfig(path, text, known)
	return err
}

// parseConfig reads lines of the form `flag-name: value`. A value keeps its text from the file; a list is joined with
// commas. An unknown or repeated key is an error with its line.
func parseConfig(path string, text []byte, known []string) (map[string]configValue, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: must be lines of the form api-addr: 127.0.0.1:7400", path, root.Line)
	}
	values := map[string]configValue{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if !slices.Contains(known, key.Value) {
			return nil, fmt.Errorf("%s:%d: %q is no flag of stint serve", path, key.Line, key.Value)
		}
		if _, twice := values[key.Value]; twice {
			return nil, fmt.Errorf("%s:%d: %s is there twice", path, key.Line, key.Value)
		}
		text, err := flagText(value)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", path, value.Line, key.Value, err)
		}
		values[key.Value] = configValue{text, fmt.Sprintf("%s:%d", path, value.Line)}
	}
	return values, nil
}

func flagText(value *yaml.Node) (string, error) {
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, nil
	case yaml.SequenceNode:
		items := make([]string, len(value.Content))
		for i, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("must be a list of plain values")
			}
			items[i] = item.Value
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("must be a value or a list of values")
}
