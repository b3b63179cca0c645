package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// The committed document is what OpenAPI 3.1 allows, by a library that is not ours: by the schema of the specification,
// and with every reference resolved. Every procedure of the .proto files is in it once.
func TestTheDocumentIsOpenAPI(t *testing.T) {
	text, err := os.ReadFile("../../api/gen/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	rules, problems := validator.NewValidator(document)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if valid, problems := rules.ValidateDocument(); !valid {
		for _, p := range problems {
			t.Error(p)
		}
	}
	posts := map[string]bool{}
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		if item.Post != nil {
			posts[path] = true
		}
	}
	for _, procedure := range procedures(t) {
		if !posts[procedure] {
			t.Errorf("%s is not in the document", procedure)
		}
		delete(posts, procedure)
	}
	for path := range posts {
		t.Errorf("%s is in the document, and no procedure", path)
	}
}

// procedures reads the names of all procedures out of the .proto files as a person would.
func procedures(t *testing.T) (paths []string) {
	t.Helper()
	files, err := filepath.Glob("../../api/stint/v1/*.proto")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	word := regexp.MustCompile(`^\s*(service|rpc) (\w+)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		service := ""
		for line := range strings.Lines(string(text)) {
			switch found := word.FindStringSubmatch(line); {
			case found == nil:
			case found[1] == "service":
				service = found[2]
			default:
				paths = append(paths, "/stint.v1."+service+"/"+found[2])
			}
		}
	}
	return paths
}
