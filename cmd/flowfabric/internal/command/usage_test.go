package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/manual"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Senseless calls are refused before anything is opened, with the reason.
func TestUsage(t *testing.T) {
	t.Parallel()
	x := nowhere(t)
	for _, c := range []struct{ args, want string }{
		{"frobnicate", `no command "frobnicate"`}, {"rnu", "did you mean run?"},
		{"run lsit", "did you mean list"}, {"run list --nonsense", "unknown flag"},
		{"run list extra", `takes no arguments, got ["extra"]`}, {"run list --tag x", "not key=value"},
		{"run list --state lost", "must be one of running"}, {"run show one", "takes FLOW RUN, got 1 arguments"},
		{"run show a b c", "takes FLOW RUN, got 3"}, {"run rerun a b --all --from c", "exclude each other"},
		{"execution show nonsense", "nonsense"}, {"--odd", "unknown flag"}, {"run list --limit -1", "--limit -1: must not be negative"},
		{"run count --hours -1", "must not be negative"}, {"run list --since -1h", "must not be negative"}, {"run list --until noon", "--until \"noon\": must be a time such as"},
		{"dev --watch ./x --engine-listen off", "--watch needs --engine-listen"},
		{"run list --color red", "must be auto, always or never"}, {"audit --since soon", "--since \"soon\""},
		{"run list --since 1h --finished 1h", "cannot be combined"}, {"run list --tag UPPER=x", "UPPER"}, {"inbox one", "the flow alone"},
		{"audit --limit -1", "must not be negative"}, {"inbox --flow a a b", "leave FLOW and RUN out"}, {"run purge a", "takes FLOW RUN"},
		{"lane list x", "takes no arguments"}, {"worker drain", "takes WORKER"}, {"flow show a --graph x", "must be outline, mermaid, dot, svg or layout"},
		{"lane pause", "takes LANE"}, {"timer a b c", "one of --to, --in and --skip"}, {"timer a b c --skip --in 1h", "one of"},
		{"timer a b c --to noon", "must be a time"}, {"timer a b c --in -1h", "must not be negative"}, {"run turns a b", "takes FLOW RUN NODE"},
		{"start flow --input {", "must be JSON or @FILE"}, {"token create", "takes NAME"}, {"token make x", "no command"},
		{"answer a b --approve --reject", "exclude each other"}, {"answer a b --comment x", "belongs to"}, {"signal x", "--signal-token"},
		{"signal x a b c --signal-token y", "leave FLOW"}, {"schedule create a b", "takes --cron or --every"},
		{"schedule create a b --cron x --every 1h", "exclude each other"}, {"schedule next a --count 0", "must be 1 to 1000"},
		{"run list --timeout -5s", "--timeout -5s: must not be negative"}, {"schedule edit a", "takes at least one of --cron"},
		{"schedule backfill a", "takes --from and --until"}, {"limit set a", "takes --at-most"}, {"limit set a --at-most 1", "belong together"},
		{"budget set a", "takes --hard or --soft"}, {"bulk start kill --flow x", `ACTION "kill": must be cancel`}, {"bulk start purge", "--every-run"},
		{"bulk start rerun --all --from x --flow x", "exclude each other"}, {"bulk start cancel --state gone", "must be one of running"},
		{"bulk start signal --signal go --payload { --flow x", "must be JSON"}, {"bulk show", "takes JOB"}, {"run priority a b x", "must be a number"},
		{"run list -o xml", `"xml": must be table`}, {"run list -o json --columns run", "--columns needs"},
		{"run list --columns nonsense", "must be of flow, run"}, {"top --interval 1ms", "at least 100ms"}, {"values a b --key x", "needs a NODE"},
		{"dev more", "takes no arguments"}, {"dev --url valkey://localhost:1 --data x", "exclude each other"}, {"server --tls-cert x", "belong together"},
		{"dev --url http://localhost:1", "needs an engine"}, {"server --url http://localhost:1", "needs an engine"}, {"keeper --url http://x", "needs an engine"},
		{"acl a\u00a0b", "no spaces"}, {"acl app --prefix *", "prefix"}, {"run list --profile nowhere", `profile "nowhere" does not exist`},
		{"--url http://h --actor ann run list", "by the login"}, {"--url http://h --prefix p run list", "for engines"}, {"doctor x", "takes no arguments"},
		{"--url http://h/?q run list", "address"}, {"profile set x", "takes --url"}, {"mcp --allow all", "must be reads"}, {"manual d --format x", "must be man"},
	} {
		if strings.Contains(c.args, "http://h/?q") {
			x.open = connect.Open
		}
		code, stdout, stderr := x.run(strings.Fields(strings.ReplaceAll(c.args, "\u00a0", "\t"))...)
		if strings.HasPrefix(c.args, "acl a") && strings.Contains(c.args, "\u00a0") {
			code, stdout, stderr = x.run("acl", "a b")
		}
		require.Equal(t, shell.ExitUsage, code, "%s: %s%s", c.args, stdout, stderr)
		require.Contains(t, stderr, c.want, c.args)
		require.True(t, strings.HasPrefix(stderr, "flowfabric: "), c.args)
		require.Contains(t, stderr, "Try flowfabric", c.args)
		x = nowhere(t)
	}
	x.where.URL = ""
	text := x.fails(shell.ExitUsage, "run", "list")
	require.Contains(t, text, "no engine or server is named, and no server answers at "+unused+" (connect: connection refused)")
	require.Contains(t, text, "run flowfabric dev")
	x.where.URL = "nonsense://"
	x.open = connect.Open
	x.fails(shell.ExitUsage, "run", "list")
}

// A command creates no engine: without one it fails and does not change the directory.
func TestCommandsCreateNoEngine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, dir := range []string{filepath.Join(empty, "missing"), empty} {
		for _, args := range [][]string{{"run", "list"}, {"run", "show", "f", "r"}, {"lane", "pause", "x"}, {"keeper"}} {
			x := terminal{t: t, where: connect.Where{URL: "embedded:" + dir}, open: connect.Open}
			code, stdout, stderr := x.run(args...)
			require.Equal(t, shell.ExitFailed, code, "%v", args)
			require.Contains(t, stderr, "contains no engine")
			require.Empty(t, stdout)
		}
	}
	left, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A directory of an embedded engine is used in place, with its prefix and namespace.
func TestCommandsOnDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	engine, err := runtime.Open(t.Context(), "embedded:"+dir, runtime.OpenConfig{Prefix: "x"})
	require.NoError(t, err)
	require.NoError(t, engine.Close())
	x := terminal{t: t, where: connect.Where{URL: "embedded:" + dir}, open: connect.Open}
	x.ok("--prefix", "x", "--namespace", "n", "lane", "pause", "slow", "--actor", "ann")
	require.Equal(t, "ann", x.lines("--prefix", "x", "--namespace", "n", "lane", "pauses")[0]["by"])
	require.Equal(t, connect.DefaultActor, x.lines("--prefix", "x", "info")[0]["principal"].(map[string]any)["name"])
}

// A command that fails prints no head of a table without rows.
func TestFailedListPrintsNoHeader(t *testing.T) {
	t.Parallel()
	b := embeddedBench(t)
	x := onEngine(t, b)
	require.Contains(t, x.ok("run", "list"), "FLOW", "an empty table has its head")
	require.Empty(t, x.ok("run", "list", "--no-headers"))
	require.NoError(t, b.Engine.Close())
	for _, args := range [][]string{{"run", "list"}, {"execution", "list"}, {"lane", "list"}, {"lane", "pauses"}} {
		code, stdout, _ := x.run(args...)
		require.Equal(t, shell.ExitFailed, code, "%v", args)
		require.Empty(t, stdout, "%v", args)
	}
}

// The printed lines are commands for a server; no engine is needed to print them.
func TestACL(t *testing.T) {
	t.Parallel()
	x := nowhere(t)
	application, err := enginecore.ApplicationRules("mine")
	require.NoError(t, err)
	deployer, err := enginecore.DeployerRules("ff")
	require.NoError(t, err)
	require.Equal(t, "ACL SETUSER app on "+application+"\n", x.ok("--prefix", "mine", "acl", "app"))
	require.Equal(t, "ACL SETUSER dep on "+deployer+"\n", x.ok("acl", "--deployer", "dep"))
}

// The engine's URL may come with a password, which no help shows.
func TestHelpShowsNoPassword(t *testing.T) {
	t.Parallel()
	x := nowhere(t)
	x.where.URL = "valkey://app:sw0rdfish@localhost"
	for _, args := range [][]string{{"--help"}, {"run", "list", "--help"}, {"help", "run"}, {"run", "show", "--help"}} {
		text := x.ok(args...)
		require.Contains(t, text, "FLOWFABRIC_URL")
		require.NotContains(t, text, "sw0rdfish")
	}
}

// Every operation of the API has a command, and every command of operations names them.
func TestEveryOperationHasA(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	manual.Visit(Tree(), func(c *cobra.Command) {
		for name := range strings.FieldsSeq(c.Annotations[shell.OperationsKey]) {
			called[name] = true
			op, ok := httpapi.Find(name)
			require.True(t, ok, name)
			if op.Effect == httpapi.Destroys {
				require.NotNil(t, c.Flags().Lookup("yes"), c.CommandPath())
				require.NotNil(t, c.Flags().Lookup("dry-run"), c.CommandPath())
			}
		}
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.False(t, strings.HasSuffix(c.Short, "."), c.CommandPath())
	})
	for _, op := range httpapi.Operations() {
		if op.Group != "tasks" { // which are for workers
			require.True(t, called[op.Name], "no command calls %s", op.Name)
		}
	}
}

// Profiles name the engine or server of commands; flags and the environment override them.
func TestProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	engine, err := runtime.Open(t.Context(), "embedded:"+filepath.Join(dir, "e"), runtime.OpenConfig{Prefix: "x"})
	require.NoError(t, err)
	require.NoError(t, engine.Close())
	env := map[string]string{"XDG_CONFIG_HOME": dir}
	run := func(args ...string) (int, string, string) {
		var out, errs strings.Builder
		a := shell.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Env: func(name string) string { return env[name] }, Local: unused}
		code := Run(t.Context(), a, args)
		return code, out.String(), errs.String()
	}
	ok := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := run(args...)
		require.Zero(t, code, "%v: %s", args, stderr)
		return stdout
	}
	code, _, stderr := run("run", "list")
	require.Equal(t, shell.ExitUsage, code)
	require.Contains(t, stderr, "--profile")
	ok("profile", "set", "here", "--url", "embedded:"+filepath.Join(dir, "e"), "--prefix", "x", "--actor", "ann", "-o", "jsonl")
	ok("profile", "set", "there", "--url", "https://me:secret@flows.example.com", "--token-file", filepath.Join(dir, "missing"))
	list := ok("profile", "list", "-o", "table")
	require.Contains(t, list, "here")
	require.NotContains(t, list, "secret")
	require.Contains(t, ok("info"), `"name":"ann"`, "the first profile is the default one, with its output")
	code, _, stderr = run("--profile", "there", "info")
	require.Equal(t, shell.ExitUsage, code)
	require.Contains(t, stderr, "missing")
	ok("profile", "use", "there")
	ok("--profile", "here", "info")
	env["FLOWFABRIC_PROFILE"] = "here"
	ok("info")
	env["FLOWFABRIC_URL"] = "embedded:" + filepath.Join(dir, "missing")
	code, _, _ = run("info")
	require.Equal(t, shell.ExitFailed, code, "the environment wins over the default profile")
	ok("--profile", "here", "info", "-o", "yaml")
	delete(env, "FLOWFABRIC_PROFILE")
	ok("profile", "delete", "there")
	code, _, _ = run("profile", "use", "there")
	require.Equal(t, shell.ExitUsage, code)
	require.Equal(t, "here\n", ok("profile", "list", "-o", "name"))
	info, err := os.Stat(filepath.Join(dir, "flowfabric", "config.yaml"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// The names of options have two hyphens in all that documentation and the files of deploy say of this command.
func TestDocumentedOptions(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..", "..")
	// The command with a subcommand, or in a list of arguments, and then an option whose name has one hyphen.
	wrong := regexp.MustCompile("(?:flowfabric [a-z]+|\"server\",)[^`#]*[ \"]-[a-z][a-z-]+")
	checked := 0
	for _, dir := range []string{"docs", "deploy", "README.md"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".png") {
				return err
			}
			text, err := os.ReadFile(path)
			for i, line := range strings.Split(string(text), "\n") {
				if (strings.Contains(line, "flowfabric ") || strings.Contains(line, `"server",`)) && !strings.Contains(line, "kubectl") {
					checked++
					require.NotRegexp(t, wrong, line, "%s:%d", path, i+1)
				}
			}
			return err
		}))
	}
	require.Greater(t, checked, 50)
}
