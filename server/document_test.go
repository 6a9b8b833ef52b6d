package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/server/internal/contract"
	"github.com/flowfabric/flowfabric-go/server/internal/route"
	"github.com/flowfabric/flowfabric-go/server/internal/typescript"
)

var update = flag.Bool("update", false, "write openapi.json and the table of operations in the documentation anew")

// The committed OpenAPI document equals the server's.
func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	var document bytes.Buffer
	require.NoError(t, json.Indent(&document, newPlace(t, nil).server.OpenAPI(), "", "  "))
	document.WriteByte('\n')
	hold(t, "openapi.json", document.String())
}

// The committed types of the console equal the types of the operations.
func TestTypesOfOpenAPI(t *testing.T) {
	t.Parallel()
	types, err := typescript.Types(route.Describe("").OpenAPI)
	require.NoError(t, err)
	hold(t, "../console/src/api/types.ts", types)
}

// The page of the HTTP API lists the operations with their rights.
func TestTableOfOperations(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../docs/reference/http-api.md", "<!-- operations -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, tail, found := strings.Cut(rest, end)
	require.True(t, found)
	hold(t, page, head+begin+table()+end+tail)
}

func table() string {
	var b strings.Builder
	b.WriteString("\n| operation | request | right | effect |\n| --- | --- | --- | --- |\n")
	for _, op := range httpapi.Operations() {
		path := op.Path
		if op.Streams {
			path += " (stream)"
		}
		fmt.Fprintf(&b, "| %s: `%s` | %s `%s` | %s | %s |\n", op.Summary, op.Name, op.Method, path, op.Right, op.Effect)
	}
	b.WriteString("\n| right | viewer | operator | admin | worker |\n| --- | --- | --- | --- | --- |\n")
	for _, right := range httpapi.Rights() {
		fmt.Fprintf(&b, "| %s |", right)
		for _, role := range []api.Role{api.Viewer, api.Operator, api.Admin, api.WorkerRole} {
			mark := ""
			for _, has := range role.Rights() {
				if has == right {
					mark = "yes"
				}
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		b.WriteString("\n")
	}
	return b.String() + "\n"
}

// The page of the routes of the contract lists them with their rights.
func TestTableOfContractRoutes(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../docs/contract/contract-api.md", "<!-- routes -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	_, tail, found := strings.Cut(rest, end)
	require.True(t, found)
	var b strings.Builder
	b.WriteString("\n| route | operation | right |\n| --- | --- | --- |\n")
	for _, r := range contract.Routes() {
		fmt.Fprintf(&b, "| %s `%s` | %s | %s |\n", r.Method, r.Pattern, r.Operation, r.Right)
	}
	b.WriteString("\n")
	hold(t, page, head+begin+b.String()+end+tail)
}

// hold compares a file with its wanted content.
func hold(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(want), 0o644))
		return
	}
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	if want != string(got) {
		t.Fatalf("%s is out of date: run go test -run %s -update in server", name, t.Name())
	}
}

// The times of a timing can be listed before a schedule has it.
func TestPreviewOfFires(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	var fires fabrictype.Page[time.Time]
	require.Equal(t, http.StatusOK, p.do("GET", "/schedules/none/fires?cron=30+2+*+*+*&time_zone=Europe/Berlin&limit=3", nil, &fires).StatusCode)
	require.Len(t, fires.Items, 3)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, at := range fires.Items {
		require.Equal(t, "02:30", at.In(berlin).Format("15:04"))
	}
	var problem api.Problem
	require.Equal(t, http.StatusUnprocessableEntity, p.do("GET", "/schedules/none/fires?cron=61+*+*+*+*", nil, &problem).StatusCode)
	require.Contains(t, problem.Error(), "61")
	require.Equal(t, http.StatusUnprocessableEntity, p.do("GET", "/schedules/none/fires?every=1ms", nil, nil).StatusCode)
	require.Equal(t, http.StatusNotFound, p.do("GET", "/schedules/none/fires", nil, nil).StatusCode)
}
