package lualib_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

// folder has the files of the library.
const folder = "../../lua"

// TestFilesAreListed fails for a file in a folder that is not listed: such a file is not in the library.
func TestFilesAreListed(t *testing.T) {
	t.Parallel()
	var present []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".lua") {
			present = append(present, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	listed := lualib.Files()
	for _, name := range present {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is not listed", name)
		}
	}
	for i, name := range listed {
		if !slices.Contains(present, name) {
			t.Errorf("%s is listed and does not exist", name)
		}
		if slices.Contains(listed[:i], name) {
			t.Errorf("%s is listed twice", name)
		}
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	source := lualib.Source()
	if !strings.HasPrefix(source, "#!lua name=flowfabric\n") {
		t.Errorf("begins with %.40q", source)
	}
	if !strings.Contains(source, "call.build = '"+lualib.Build()+"'") {
		t.Errorf("build %s is not in the source", lualib.Build())
	}
	for _, name := range lualib.Files() {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(source, string(text)) {
			t.Errorf("%s is not in the source", name)
		}
		if !strings.HasSuffix(string(text), "\n") {
			t.Errorf("%s does not end with a line break", name)
		}
	}
}

func TestContractSourceHasNoCompositeCalls(t *testing.T) {
	t.Parallel()
	composite := regexp.MustCompile(`(?m)^redis\.register_function\W+(?:function_name = )?'ffx\d*_`)
	if !composite.MatchString(lualib.Source()) {
		t.Error("the whole library registers no composite call")
	}
	contract := lualib.ContractSource()
	if composite.MatchString(contract) || strings.Contains(contract, "function F.ffx") {
		t.Error("the contract library has a composite call")
	}
	if !regexp.MustCompile(`(?m)^redis\.register_function\W+(?:function_name = )?'ff_`).MatchString(contract) {
		t.Error("the contract library registers nothing")
	}
}

// The functions that a full server refuses are chosen explicitly: all other functions that write still run there, so
// they must add little data.
func TestFunctionsRefusedWhenFull(t *testing.T) {
	t.Parallel()
	want := []string{
		"ff_add_execution_to_flow", "ff_apply_dependency_to_child", "ff_create_budget", "ff_create_execution", "ff_create_flow",
		"ff_create_quota_policy", "ff_replay_execution", "ff_set_edge_group_policy", "ff_stage_dependency_edge",
		"ffx3_add_api_session", "ffx3_add_api_token", "ffx3_end_api_request", "ffx3_publish_flow", "ffx3_put_graph", "ffx3_rerun", "ffx3_set_budget", "ffx3_set_quota", "ffx3_start", "ffx3_start_bulk_job", "ffx3_submit",
	}
	var refused []string
	flags := map[string]int{}
	for _, m := range regexp.MustCompile(`redis\.register_function(?:\('(\w+)'|\{ function_name = '\w+', flags = \{ '([a-z-]+)' \})`).FindAllStringSubmatch(lualib.Source(), -1) {
		if m[1] != "" {
			refused = append(refused, m[1])
		}
		flags[m[2]]++
	}
	slices.Sort(refused)
	if !slices.Equal(refused, want) {
		t.Errorf("refused are %v, want %v", refused, want)
	}
	if flags["allow-oom"] == 0 || flags["no-writes"] == 0 || len(flags) != 3 {
		t.Errorf("registered with flags: %v", flags)
	}
}
