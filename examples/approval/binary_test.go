package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
)

// TestBinary runs the built program from other directories, in several processes.
func TestBinary(t *testing.T) {
	t.Parallel()
	b := buildProgram(t)
	for name, test := range map[string]func(*testing.T, built){
		"bad command lines": testBadCommandLines, "help": testHelp, "failing test": testFailingTest, "escalation": testEscalation,
		"killed": testKilled, "interrupted": testInterrupted, "asked": testAsked, "no engine": testNoEngine,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		testProcesses(t, b.bench(t), false)
	})
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			testProcesses(t, b.bench(t, "-engine", testserver.Start(t, testserver.Options{Kind: kind}).URL()), true)
		})
		t.Run(string(kind)+" in contract mode", func(t *testing.T) {
			t.Parallel()
			testProcesses(t, b.bench(t, "-engine", enginetest.ContractServer(t, kind).URL()+"?contract=15"), true)
		})
	}
}

// An engine of another project has the functions of the contract alone, and the plain flow needs no others.
func TestPlainFlowOnReference(t *testing.T) {
	t.Parallel()
	library := enginetest.Reference(t)
	server := enginetest.ServerWith(t, testserver.Valkey, library)
	b := buildProgram(t).bench(t, "-engine", server.URL()+"?contract=15")
	require.Contains(t, b.do("run", "v1").fails(), "not part of the FlowFabric contract")
	run := b.do("run", "v1", "-plain")
	run.until("waits for 2 people")
	b.agree("v1", "ann")
	require.Contains(t, b.says(approve, "v1", "-by", "bob"), "is recorded")
	run.succeeds()
	b.live("v1")

	run = b.do("run", "v2", "-plain")
	run.until("waits for 2 people")
	b.agree("v2", "ann")
	require.Contains(t, b.says(reject, "v2", "-by", "bob"), "is recorded")
	require.Contains(t, run.fails(), "v2 is not deployed: count: rejected by bob")
	b.live("v1")
}

// testProcesses deploys, refuses and takes back, with a process for each command. On a server the engine outlives them
// all.
func testProcesses(t *testing.T, b *bench, server bool) {
	require.Equal(t, "\n", b.says("status"))
	b.deployed("v1")

	// One rejection is enough, also from a person who has agreed before, and the run has its reason.
	run := b.do("run", "v2")
	run.until("waits for 2 people")
	require.Contains(t, b.says("status"), "v1 is live.\nv2  under way  ")
	b.agree("v2", "ann")
	require.Contains(t, b.says(approve, "v2", "-by", "Ann"), "Ann has answered so before. Nothing has changed.")
	require.Regexp(t, `approval +suspended`, b.says("status", "v2"))
	require.Contains(t, b.says("status", "v2"), "approval: 1 of 2 answers, open for ")
	require.Contains(t, b.says(reject, "v2", "-by", "ann", "-comment", "not on a Friday"), "The answer of ann is recorded, and decides.")
	require.Contains(t, run.fails(), "v2 is not deployed: approval: rejected by ann: not on a Friday; the site serves v1\n")
	require.Contains(t, run.printed(), "undo-approval  finished\n")
	require.Contains(t, run.printed(), "clean          finished\n")
	b.live("v1")
	require.NoDirExists(t, b.site.path("releases", "v2"))
	require.NoDirExists(t, b.site.path("sources", "v2"))
	require.Contains(t, b.do(approve, "v2", "-by", "cem").fails(), "v2: the deployment does not wait for answers")

	// A live release that is not the expected one is rolled back. The people answer by links.
	run = b.do("run", "v3", "-defect", "verify")
	run.until("waits for 2 people")
	serve := b.do("serve", "-address", "127.0.0.1:0")
	page := regexp.MustCompile(`http://\S+`).FindString(serve.until("The links are at "))
	refusesOtherNames(t, page)
	for _, who := range []string{"ann", "bob"} {
		answerLink(t, page, who)
	}
	require.Regexp(t, `v3 is not deployed: verify: http://\S+ says that it is v0-oops, not v3; the site serves v1\n`, run.fails())
	require.Contains(t, run.printed(), "undo-verify    finished\n")
	if server {
		require.Contains(t, get(t, page), "<p>None.")
	}
	require.NoError(t, serve.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, serve.end(), serve.stderr.String())
	b.live("v1")

	require.Contains(t, b.says("watch", "v3"), "verify         failed: ")
	require.Contains(t, b.do("watch", "v9").fails(), "no such run")
	require.Contains(t, b.do("run", "v3").fails(), "version v3 was begun before with another -dir, -defect, -escalate or -plain")
	require.Contains(t, b.says("run", "v1"), "Deployment of v1 goes on. What was finished does not run again.\n")
}

// refusesOtherNames requests the page by the name of a foreign site.
func refusesOtherNames(t *testing.T, page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, http.NoBody)
	require.NoError(t, err)
	request.Host = "rebound.example.com:8080"
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusForbidden, response.StatusCode)
}

// answerLink follows the first link of the page and approves.
func answerLink(t *testing.T, page, who string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := http.Client{Jar: jar}
	read := func(response *http.Response, err error) string {
		t.Helper()
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode, string(body))
		return string(body)
	}
	path := regexp.MustCompile(`href="(/answer/[^"]+)"`).FindStringSubmatch(read(browser.Get(page)))
	require.NotNil(t, path)
	link, err := url.JoinPath(page, path[1])
	require.NoError(t, err)
	form := read(browser.Get(link))
	require.Contains(t, form, "May version v3 of the site go live?")
	seal := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(form)
	require.NotNil(t, seal)
	require.Contains(t, read(browser.PostForm(link, url.Values{"form": {seal[1]}, "choice": {approve}, "who": {who}})), "Thank you")
}

func get(t *testing.T, url string) string {
	t.Helper()
	text, err := fetch(t.Context(), url)
	require.NoError(t, err)
	return text
}

func testFailingTest(t *testing.T, b built) {
	bench := b.bench(t)
	run := bench.do("run", "v1", "-defect", "test")
	require.Contains(t, run.fails(), `Line(Lima) = "Hullo, Lima!"`)
	require.Contains(t, run.stderr.String(), "the site serves nothing\n")
	require.NotContains(t, run.printed(), "waits for 2 people")
}

func testEscalation(t *testing.T, b built) {
	bench := b.bench(t)
	run := bench.do("run", "v1", "-escalate", "1s")
	run.until("ESCALATED: nobody has decided in time")
	require.Regexp(t, `0 of 2 answers, open for \S+, escalated\n`, bench.says("status", "v1"))
	bench.agree("v1", "ann", "bob")
	run.succeeds()
	bench.live("v1")
}

// testKilled kills the program while it waits. The people answer while nothing runs, and the next start continues with
// it.
func testKilled(t *testing.T, b built) {
	bench := b.bench(t)
	run := bench.do("run", "v1")
	run.until("waits for 2 people")
	require.NoError(t, run.cmd.Process.Kill())
	require.NotZero(t, run.end())
	bench.agree("v1", "ann")

	again := bench.do("run", "v1")
	again.until("Deployment of v1 goes on.")
	again.until("waits for 2 people")
	require.NoError(t, again.cmd.Process.Kill())
	require.NotZero(t, again.end())
	bench.agree("v1", "bob")

	last := bench.do("run", "v1")
	last.succeeds()
	require.Contains(t, last.printed(), "v1 is live, approved by ann and bob.\n")
	// The build of the first process was the only one.
	require.Len(t, regexp.MustCompile(`build +runs`).FindAllString(last.printed(), -1), 1, last.printed())
}

func testInterrupted(t *testing.T, b built) {
	bench := b.bench(t)
	run := bench.do("run", "v1")
	run.until("waits for 2 people")
	require.NoError(t, run.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitInterrupted, run.end(), run.stderr.String())
	require.Contains(t, run.printed(), "Interrupted; what was running is released. The same command goes on with v1.\n")
	require.Empty(t, run.stderr.String())
}

// testAsked answers on standard input.
func testAsked(t *testing.T, b built) {
	bench := b.bench(t)
	run := bench.do("run", "v1", "-ask", "always")
	_, err := io.WriteString(run.stdin, "Ann Lee\nmaybe\napp\n\nann lee\na\n\nBob\napprove\nat last\n")
	require.NoError(t, err)
	run.succeeds()
	require.Contains(t, run.printed(), "The answer of Ann Lee is recorded. Others have to answer, too.\n")
	require.Contains(t, run.printed(), "ann lee has answered so before. Nothing has changed.\n")
	require.Contains(t, run.printed(), "v1 is live, approved by Ann Lee and Bob.\n")
}

func testNoEngine(t *testing.T, b built) {
	bench := b.bench(t)
	run := bench.do("run", "v1", "-listen", "")
	run.until("waits for 2 people")
	require.Contains(t, bench.do("status").fails(), "another process has the engine of "+string(bench.site)+" and lets nobody in")
	require.NoError(t, run.cmd.Process.Kill())
	run.end()
	require.Contains(t, b.start(t, "status", "-engine", "redis://127.0.0.1:1").fails(), "-engine: ")
	require.Contains(t, b.start(t, "status", "v1", "-dir", t.TempDir()).fails(), "no such run")
}

func testBadCommandLines(t *testing.T, b built) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "a command is missing"},
		{[]string{"fly"}, `unknown command "fly"`},
		{[]string{"run"}, "a version is missing: the form is approval run [flags] VERSION"},
		{[]string{"run", "v1", "v2"}, `arguments ["v1" "v2"]: the form is approval run [flags] VERSION`},
		{[]string{"serve", "v1"}, `arguments ["v1"]`},
		{[]string{"run", "../v1"}, `version "../v1": must be 1 to 40 letters`},
		{[]string{"run", "v1", "-defect", "all"}, `-defect "all": must be test or verify`},
		{[]string{"run", "v1", "-escalate", "1ms"}, "-escalate 1ms: must be 1s to 720h"},
		{[]string{"run", "v1", "-ask", "maybe"}, "must be auto, always or never"},
		{[]string{"run", "-listen", "0.0.0.0:7000", "v1"}, `-listen: "0.0.0.0:7000" is not an address of this machine only`},
		{[]string{"serve", "-address", ":80"}, `-address: ":80" is not an address of this machine only`},
		{[]string{"approve", "v1", "-by", " "}, "-by: must say who answers"},
		{[]string{"status", "-dir", ""}, `-dir "": must name a directory`},
		{[]string{"status", "-engine", "embedded:"}, `-engine "embedded:": must be a server`},
		{[]string{"status", "-speed"}, "flag provided but not defined: -speed"},
	} {
		p := b.start(t, c.args...)
		require.Equal(t, exitUsage, p.end(), c.args)
		require.Equal(t, "\n", p.printed(), c.args)
		require.Contains(t, p.stderr.String(), c.says, c.args)
		require.Contains(t, p.stderr.String(), "Try approval -help.")
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.Contains(t, b.start(t, "status", "-dir", file).fails(), "-dir: ")
}

func testHelp(t *testing.T, b built) {
	for _, args := range [][]string{{"-help"}, {"help"}, {"-h"}} {
		p := b.start(t, args...)
		p.succeeds()
		require.Contains(t, p.printed(), "  approve  VERSION    agree to a deployment that waits\n")
	}
	for _, c := range commands() {
		p := b.start(t, c.name, "-help")
		p.succeeds()
		require.Contains(t, p.printed(), "Usage: approval "+c.name)
		require.Contains(t, p.printed(), "-engine URL")
		require.Empty(t, p.stderr.String())
	}
}
