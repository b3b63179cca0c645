package policy_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stint-io/stint/policy"
)

func template(t *testing.T, text string) policy.Template {
	t.Helper()
	made, err := policy.ParseTemplate(text, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return made
}

// Text from outside is data in a key: it never separates fields, never chooses the shard, and is no parent.
func TestKeysOfTemplates(t *testing.T) {
	values := map[string]string{"ip": "192.0.2.7", "user": "{a}|b=c%", "odd": "x\x00\xff\u0085\u00e9", "none": "",
		"net": "::/64", "like none": "%empty"}
	for text, want := range map[string]string{
		"ip:{ip}":               "ip:192.0.2.7",
		"user={user}|ip={ip}":   "user=%7Ba%7D%7Cb%3Dc%25|ip=192.0.2.7",
		"{odd}":                 "x%00%FF%C2%85\u00e9",
		"{{{ip}}}|login {none}": "{192.0.2.7}|login %empty",
		"shop/{net}/x":          "shop/::%2F64/x",
		"{none}":                "%empty",
		"{like none}/{none}":    "%25empty/%empty",
		"everybody":             "everybody",
		"":                      "",
	} {
		made := template(t, text)
		if got := made.Key(func(field string) string { return values[field] }); got != want || made.String() != text {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if names := template(t, "{a}-{b}{a}").Fields(); strings.Join(names, " ") != "a b a" {
		t.Errorf("fields %q", names)
	}
}

// Long values still make different keys, within the bound of a key. The text around them stays, and so do the other
// values: a client does not change the key of the parent.
func TestLongValuesOfTemplates(t *testing.T) {
	long := strings.Repeat("\u00e9", 400)
	keyOf := func(text, value string) string {
		return template(t, text).Key(func(field string) string {
			if field == "a" {
				return value
			}
			return strings.Repeat("b", 150)
		})
	}
	for _, text := range []string{"path={a}|", "{a}", "{{{a}}}/product:x", "{b}/{a}", "{b}{a}",
		strings.Repeat("t", 488) + "{a}", strings.Repeat("{a}", 21)} {
		one, other := keyOf(text, long+"1"), keyOf(text, long+"2")
		before, after, _ := strings.Cut(keyOf(text, "\u2603"), "\u2603")
		if one == other || !isKey(one) || !strings.HasPrefix(one, before) ||
			!strings.HasSuffix(one, strings.ReplaceAll(after, "\u2603", "")) {
			t.Errorf("%s: got %d bytes %q\nand %q", text, len(one), one, other)
		}
		if again := keyOf(text, one); again == one {
			t.Errorf("%s: the value %q makes the key of a longer one", text, one)
		}
	}
	if key := keyOf("{a}", strings.Repeat("x", 200)); key != strings.Repeat("x", 200) {
		t.Errorf("200 bytes are written as %q", key)
	}
	if key := keyOf("{a}", strings.Repeat("/", 67)); len(key) != 200 || !strings.Contains(key, "%#") {
		t.Errorf("201 bytes are written as %q", key)
	}
}

func TestWrongTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"a}":                     "without its",
		"{a":                     "begins no field",
		"{}":                     "begins no field",
		"{a{b}}":                 "begins no field",
		"{identity}":             "has no field {identity} here: known are {ip}",
		"a\n":                    "control characters",
		strings.Repeat("a", 513): "has 513 bytes",
		strings.Repeat("a", 489) + "{ip}": "has 1 fields and 489 bytes around them: " +
			"in a key of 512 bytes, 23 are left for each value, and 24 are needed",
		strings.Repeat("{ip}", 22):        "23 are left",
		strings.Repeat("a/", 21) + "{ip}": "has 22 parts between slashes: at most 21 are allowed",
	} {
		if _, err := policy.ParseTemplate(text, []string{"ip"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// isKey reports whether the API takes a key, if it is not empty.
func isKey(key string) bool {
	return len(key) <= 512 && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl)
}

func FuzzTemplate(f *testing.F) {
	f.Add("user={user}|ip:{{{ip}}}", "{a}|b=%")
	f.Fuzz(func(t *testing.T, text, value string) {
		made, err := policy.ParseTemplate(text, nil)
		if err != nil {
			return
		}
		key := made.Key(func(string) string { return value })
		if !isKey(key) {
			t.Errorf("%q of %q makes the key %q", text, value, key)
		}
		if !strings.Contains(text, "{{") && strings.Contains(key, "{") {
			t.Errorf("%q of %q makes the key %q: a value has chosen the shard", text, value, key)
		}
		if strings.Count(key, "/") > strings.Count(text, "/") || key == "" && text != "" {
			t.Errorf("%q of %q makes the key %q: a value has made a parent, or no key", text, value, key)
		}
	})
}
