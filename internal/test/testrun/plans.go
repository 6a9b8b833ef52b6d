package main

import (
	"errors"
	"slices"
	"strings"
)

var errUsage = errors.New("usage: testrun unit|test|all")

const module = "github.com/flowfabric/flowfabric-go"

// The engines for tests, in the form of FLOWFABRIC_TEST_ENGINES.
const (
	embedded = "embedded"
	servers  = "redis,valkey"
	each     = "embedded,redis,valkey"
	cluster  = "cluster"
)

// browser is the module whose tests need one.
const browser = "console/dev"

// modules have go.mod files of their own, so that the dependencies of the library stay few.
var modules = []string{
	"server", "cmd/flowfabric", browser, "mcpserver", "console", "examples/http-workers", "internal/test/linearizability",
}

// apart are modules outside the workspace: their requirements must not change versions of the library's dependencies.
var apart = []string{"deploy/check", "bench/peers"}

// engineSuites are the tests that every engine must pass.
var engineSuites = []string{
	"internal/test/childtest", "internal/test/enginetest", "admin", "internal/enginerpc", "internal/test/accesstest",
	"internal/test/budgettest", "internal/test/keepertest", "internal/test/scheduletest",
}

// longest are the packages that take longest. They begin first, or the end would wait for them.
var longest = []string{
	"internal/test/propertytest", "internal/test/workertest", "contract/internal/modetest", "internal/test/viewtest",
	"bench", "internal/test/enginetest", "internal/test/childtest", "contract/internal/contracttest",
}

// slow are the packages that unit leaves out: they execute whole runs, write files and sync them, compare with another
// implementation, disturb servers, or measure.
var slow = []string{
	"admin/archive", "admin/backup", "admin/move", "bench", "codegen", "enginecore/embedded/internal/aof", "examples/...",
	"contract/internal/modetest", "internal/keycopy", "internal/test/...",
}

// ofSources are the packages whose tests read sources and pages. No engine changes their result.
var ofSources = []string{"codegen/...", "internal/test/apidoc", "internal/test/importtest", "internal/test/wordtest"}

// sequential are the packages that make one call after the other, or measure: the race detector finds nothing in them.
var sequential = []string{
	"bench", "lua", "internal/test/conformance/...", "contract/internal/contracttest", "internal/test/enginetest",
	"internal/test/sizetest",
}

// unit is the plan for contributors after each change. Results of unchanged packages come from Go's cache.
func unit(packages []string) []lane {
	return []lane{{{
		says: "quick packages", engines: embedded, packages: without(packages, slow), flags: []string{"-short"},
	}}}
}

// test is the plan that must pass before a change is proposed.
func test(packages []string) []lane {
	beside := lane{{
		says: "suites of engines", engines: servers, packages: paths(engineSuites), flags: fresh,
	}}
	for _, dir := range modules {
		beside = append(beside, step{says: dir, dir: dir, engines: embedded, packages: []string{"./..."}, flags: fresh})
	}
	return []lane{
		{{says: "all packages of the library", engines: embedded, packages: sorted(packages), flags: fresh}},
		beside,
	}
}

// all is the matrix of engines, a cluster and the race detector, for combinations that test has not run.
func all(packages []string) []lane {
	beside := lane{
		{says: "calls in sequence", engines: servers, packages: only(packages, sequential), flags: fresh},
		{
			says: "comparison of the embedded engine with servers", engines: servers,
			packages: paths([]string{"enginecore/embedded"}), flags: append(slices.Clone(fresh), "-run", differential),
		},
		{says: "suites of engines", engines: cluster, packages: paths(engineSuites), flags: fresh},
	}
	for _, dir := range modules {
		beside = append(beside, step{
			says: dir, dir: dir, engines: each, race: true, packages: []string{"./..."}, flags: fresh,
		})
	}
	for _, dir := range apart {
		beside = append(beside, step{says: dir, dir: dir, engines: each, packages: []string{"./..."}, flags: fresh})
	}
	raced := without(sorted(packages), slices.Concat(sequential, ofSources))
	return []lane{
		{{
			says: "all packages of the library", engines: each, race: true, packages: raced,
			flags: append(slices.Clone(fresh), "-skip", differential),
		}},
		beside,
	}
}

// differential selects the tests that send each command to the embedded engine and to a server, and compare replies.
const differential = "^TestDifferential"

// fresh runs tests even if nothing has changed: servers and the machine may have. The timeout is a safeguard, no
// measure.
var fresh = []string{"-count=1", "-timeout=40m", "-vet=off"}

func paths(folders []string) []string {
	all := make([]string, len(folders))
	for i, folder := range folders {
		all[i] = module + "/" + folder
	}
	return all
}

// sorted puts the longest packages first.
func sorted(packages []string) []string {
	first := paths(longest)
	return append(first, slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return slices.Contains(first, p) })...)
}

func only(packages, patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return !matches(p, patterns) })
}

func without(packages, patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return matches(p, patterns) })
}

// matches reports whether a package is one of the patterns: folders, or folders and all below them with "/...".
func matches(path string, patterns []string) bool {
	folder := strings.TrimPrefix(path, module+"/")
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		top, below := strings.CutSuffix(pattern, "/...")
		return folder == top || below && strings.HasPrefix(folder, top+"/")
	})
}
