package stint

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// rulePages explain the ids of guarantees and rules that comments cite; each names the other.
var rulePages = []string{"docs/guarantees.md", "docs/rules.md"}

var (
	// aPage matches a Markdown page as a text names it, from the last blank, bracket or quote before the name.
	aPage = regexp.MustCompile("[^\\s()\\[\\]<>\"'`,;:|*]+\\.md\\b")
	// aRule matches the id of a rule, and definition the place on rulePages that defines one.
	aRule      = regexp.MustCompile(`\b[GSXR][0-9]{1,2}[a-c]?\b`)
	definition = regexp.MustCompile(`(?m)^(?:- |\| )\*\*([GSXR][0-9]{1,2}[a-c]?)\*\* `)
)

// TestCitedPagesExist checks that every cited page exists: readers of this repository have only the pages in it.
func TestCitedPagesExist(t *testing.T) {
	for name, text := range writing(t) {
		for _, page := range aPage.FindAllString(text, -1) {
			if !strings.HasPrefix(page, "//") && !exists(page) && !exists(filepath.Join(filepath.Dir(name), page)) {
				t.Errorf("%s cites %s, which is not in the repository", name, page)
			}
		}
	}
}

// typedPages types the commands of pages, or names the pages whose commands it skips.
const typedPages = "examples/pages_test.go"

// TestCommandsOfPagesAreTyped: a block "sh" is typed by a test. Recipes and the pages of docs/from are found by their
// places.
func TestCommandsOfPagesAreTyped(t *testing.T) {
	typed, err := os.ReadFile(typedPages)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range writing(t) {
		recipe, _ := filepath.Match("examples/*/README.md", name)
		from, _ := filepath.Match("docs/from/*.md", name)
		if strings.Contains(text, "\n```sh") && strings.HasSuffix(name, ".md") && !recipe && !from &&
			!strings.Contains(string(typed), `"`+name+`"`) {
			t.Errorf("%s has commands in a block sh, which %s does not type", name, typedPages)
		}
	}
}

// TestTheGoOfPagesRuns holds that the first Go of a page is that of an example, which is run.
func TestTheGoOfPagesRuns(t *testing.T) {
	const example = "client/example_test.go"
	run, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"docs/start.md", "docs/errors.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, code, found := strings.Cut(string(page), "```go\n")
		code, _, ended := strings.Cut(code, "```")
		if !found || !ended || !strings.Contains(string(run), code) {
			t.Errorf("%s does not have the Go of %s:\n%s", example, name, code)
		}
	}
}

// TestCitedRulesExist checks that each cited rule id is defined exactly once, and that the manual of a package that
// cites rules names one of the rulePages.
func TestCitedRulesExist(t *testing.T) {
	defined := map[string]int{}
	for _, page := range rulePages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range definition.FindAllStringSubmatch(string(text), -1) {
			if defined[rule[1]]++; defined[rule[1]] == 2 {
				t.Errorf("%s defines %s again", page, rule[1])
			}
		}
	}
	texts := writing(t)
	for name, text := range texts {
		cited := aRule.FindAllString(text, -1)
		for _, rule := range cited {
			if defined[rule] == 0 {
				t.Errorf("%s cites %s, which none of %v has", name, rule, rulePages)
			}
		}
		manual := texts[filepath.Join(filepath.Dir(name), "doc.go")]
		names := slices.ContainsFunc(rulePages, func(page string) bool { return strings.Contains(manual, page) })
		if len(cited) > 0 && strings.HasSuffix(name, ".go") && name != "docs_test.go" && !names {
			t.Errorf("%s cites %s, and its doc.go does not say which of %v explains it", name, cited[0], rulePages)
		}
	}
}

// written is what writing returns, read once.
var written = sync.OnceValues(readWriting)

// writing returns the texts written for people, by file: the documents, and the comments of Go files.
func writing(t *testing.T) map[string]string {
	t.Helper()
	found, err := written()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func readWriting() (found map[string]string, err error) {
	found = map[string]string{}
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "dist" || name == "api/gen"):
			return filepath.SkipDir
		case d.IsDir():
		case strings.HasSuffix(name, ".go"):
			found[name], err = commentsOf(name)
		case isDocument(name):
			var text []byte
			text, err = os.ReadFile(name)
			found[name] = string(text)
		}
		return err
	})
	return found, err
}

func isDocument(name string) bool {
	extensions := []string{".md", ".yaml", ".yml", ".sh", ".txtar", ".proto", ".txt"}
	return slices.Contains(extensions, filepath.Ext(name)) ||
		slices.Contains([]string{"Makefile", "Dockerfile"}, filepath.Base(name))
}

// commentsOf joins the comments of a Go file.
func commentsOf(name string) (string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, group := range syntax.Comments {
		text.WriteString(group.Text() + "\n")
	}
	return text.String(), nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
