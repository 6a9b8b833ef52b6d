package enginerpc

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// generatedInfo matches the name and the properties of the function in a generated call.
var generatedInfo = regexp.MustCompile(`return callInfo\{name: "(\w+)"([^}]*)\}`)

// Every name in the table of classes is the name of a function that writes, in exactly one class, and every function
// that writes has an entry: the author of a new function has to decide whether its callers rely on replicas.
func TestReplicationClasses(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	writes := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range generatedInfo.FindAllStringSubmatch(string(text), -1) {
			writes[m[1]] = !strings.Contains(m[2], "readOnly: true")
		}
	}
	if len(writes) < 100 || !writes["ffx3_submit"] || writes["ffx3_flow_result"] {
		t.Fatalf("%d functions were found, which does not look like all of them", len(writes))
	}
	classes := make(map[string][]replicationClass)
	for class, list := range functionsByClass {
		for name := range strings.FieldsSeq(list) {
			classes[name] = append(classes[name], class)
			if write, exists := writes[name]; !exists {
				t.Errorf("%s has a class, but is not a function", name)
			} else if !write {
				t.Errorf("%s has a class and does not write", name)
			}
			if got := (callInfo{name: name}).replicationClass(); got != class {
				t.Errorf("%s is of class %d, not %d", name, got, class)
			}
		}
	}
	var missing []string
	for name, write := range writes {
		switch n := len(classes[name]); {
		case write && n == 0:
			missing = append(missing, name)
		case n > 1:
			t.Errorf("%s has %d classes", name, n)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("these functions write and have no class: %s", strings.Join(missing, " "))
	}
}
