package server_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/server"
)

const keyHeader = "Idempotency-Key"

// withPeople lets requests name a principal with any name, whose group determines its rights.
func withPeople(c *server.Config) {
	c.Proxy = &server.ProxyLogin{UserHeader: userHeader, GroupsHeader: groupHeader, From: loopback}
	for group, role := range map[string]api.Role{
		"admins": api.Admin, "operators": api.Operator, "viewers": api.Viewer, "workers": api.WorkerRole,
	} {
		c.Proxy.Grants = append(c.Proxy.Grants, server.Grant{MatchGroup: group, Role: role})
	}
}

func person(name, group, key string) []string {
	return []string{userHeader, name, groupHeader, group, keyHeader, key}
}

// A refusal is not stored: when its cause has ended, a repeat is executed.
func TestRefusalsAreNotStored(t *testing.T) {
	t.Parallel()
	each(t, withPeople, func(t *testing.T, p *place) {
		var problem api.Problem
		start := map[string]any{"id": "one", "input": order{"book", 1}}
		status := func(method, path string, body any, header ...string) int {
			return p.do(method, path, body, &problem, header...).StatusCode
		}
		require.Equal(t, http.StatusForbidden, status("POST", "/flows/approval/runs", start, person("ann", "viewers", "k")...))
		cancel := map[string]any{}
		require.Equal(t, http.StatusNotFound,
			status("POST", "/runs/approval/one/cancel", cancel, person("ann", "operators", "c")...), "the run does not exist yet")
		require.Equal(t, http.StatusCreated, status("POST", "/flows/approval/runs", start, person("ann", "operators", "k")...))
		reply := p.do("POST", "/runs/approval/one/cancel", cancel, nil, person("ann", "operators", "c")...)
		require.Equal(t, http.StatusNoContent, reply.StatusCode)
		reply = p.do("POST", "/runs/approval/one/cancel", cancel, nil, person("ann", "operators", "c")...)
		require.Equal(t, http.StatusNoContent, reply.StatusCode)
		require.Equal(t, "true", reply.Header.Get("Idempotent-Replayed"))
	})
}

// A kept reply is for a principal who has all rights with which the request was made.
func TestStoredReplyNeedsTheRights(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withPeople)
	var problem api.Problem
	start := map[string]any{"id": "one", "input": order{"book", 1}}
	do := func(group string) int {
		return p.do("POST", "/flows/order/runs", start, &problem, person("ann", group, "k")...).StatusCode
	}
	require.Equal(t, http.StatusCreated, do("admins"))
	require.Equal(t, http.StatusForbidden, do("viewers"))
	require.Contains(t, problem.Detail, "operate")
	require.Equal(t, http.StatusForbidden, do("operators"), "who has the right of the operation, but less than before")
	require.Equal(t, http.StatusCreated, do("admins"))
}

// Keys of two principals are apart, also where their names and keys together have the same text.
func TestIdempotencyKeysArePerPrincipal(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withPeople)
	for i, who := range [][2]string{{"ann", "lee k"}, {"ann lee", "k"}, {"ann lee k", ""}} {
		start := map[string]any{"id": string(rune('a' + i)), "input": order{"book", 1}}
		reply := p.do("POST", "/flows/order/runs", start, nil, person(who[0], "operators", who[1])...)
		require.Equal(t, http.StatusCreated, reply.StatusCode, who)
	}
}

// Requests that are refused, and requests that read, leave nothing in the engine.
func TestRefusedRequestsStoreNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, withPeople)
	reading := newPlaceOf(t, p.bench, func(c *server.Config) { withPeople(c); c.ReadOnly = true })
	for _, op := range httpapi.Operations() {
		if op.Method == http.MethodGet {
			continue
		}
		path := pathOf(op, "x")
		if op.Right != api.View {
			p.do(op.Method, path, map[string]any{}, nil, person("ann", "viewers", "k")...)
		}
		if op.Effect != httpapi.Reads {
			reading.do(op.Method, path, map[string]any{}, nil, person("ann", "admins", "k")...)
		} else {
			p.do(op.Method, path, map[string]any{}, nil, person("ann", "admins", "k")...)
		}
	}
	require.NotContains(t, contents(t, p.bench), "api_request")
	p.do("POST", "/flows/order/runs", map[string]any{"input": order{"book", 1}}, nil, person("ann", "admins", "k")...)
	require.Contains(t, contents(t, p.bench), "api_request", "which is how they would be found")
}

// A reply that is too large to be stored is sent once. A repeat learns that the request was executed.
func TestLargeReplyIsSentOnce(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 300<<10)
	each(t, nil, func(t *testing.T, p *place) {
		r := newRemote(t, p.bench, "w")
		r.start(1)
		task := r.claim()
		p.url = r.url
		path, body := "/tasks/"+task.Token+"/steps/s", map[string]any{"result": large}
		var step api.Step
		reply := p.do("PUT", path, body, &step, keyHeader, "k")
		require.Equal(t, http.StatusOK, reply.StatusCode)
		var problem api.Problem
		reply = p.do("PUT", path, body, &problem, keyHeader, "k")
		require.Equal(t, http.StatusConflict, reply.StatusCode)
		require.Equal(t, "reply_not_kept", problem.Code)
		require.Contains(t, problem.Detail, "status 200")
		require.NoError(t, r.complete(task, "1"))
	})
}

// Operations whose replies have a credential take no key.
func TestCredentialsAreNotStored(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	for _, op := range httpapi.Operations() {
		if !op.Credential {
			continue
		}
		var problem api.Problem
		reply := p.do(op.Method, pathOf(op, "x"), map[string]any{}, &problem, keyHeader, "k")
		require.Equal(t, http.StatusUnprocessableEntity, reply.StatusCode, op.Name)
		require.Contains(t, problem.Detail, op.Name+" takes no Idempotency-Key")
	}
}

// credentialName matches the name of a field with a credential, or its documentation.
var credentialName = regexp.MustCompile(`(?i)token|secret|credential|password|passphrase|private|bearer|cookie|` +
	`cannot be shown again|proves`)

// TestCredentialsAreMarked finds operations whose reply has a credential and that do not say so. A field that only looks
// like one has another name.
func TestCredentialsAreMarked(t *testing.T) {
	t.Parallel()
	for _, op := range httpapi.Operations() {
		found := credentialsOf(op.Output, map[reflect.Type]bool{})
		require.Equal(t, found != "" && op.Effect != httpapi.Reads, op.Credential, "%s: %s", op.Name, found)
	}
}

// credentialsOf returns the name of a field of a type that looks like a credential.
func credentialsOf(t reflect.Type, seen map[reflect.Type]bool) string {
	if seen[t] || t == reflect.TypeFor[json.RawMessage]() {
		return ""
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return credentialsOf(t.Elem(), seen)
	case reflect.Struct:
		for field := range t.Fields() {
			text := field.Type.Kind() == reflect.String || field.Type == reflect.TypeFor[[]byte]()
			if text && credentialName.MatchString(string(field.Tag)+field.Name) {
				return t.Name() + "." + field.Name
			}
			if name := credentialsOf(field.Type, seen); name != "" {
				return name
			}
		}
	}
	return ""
}

// A stored reply does not report the start of a run when the run has been purged.
func TestStoredReplyOfPurgedRun(t *testing.T) {
	t.Parallel()
	each(t, withPeople, func(t *testing.T, p *place) {
		ann := func(key string) []string { return person("ann", "admins", key) }
		one := map[string]any{"id": "one", "input": order{"book", 1}}
		many := map[string]any{"runs": []any{map[string]any{"id": "two", "input": order{"book", 1}}, map[string]any{"id": "three", "input": order{"book", 1}}}}
		require.Equal(t, http.StatusCreated, p.do("POST", "/flows/order/runs", one, nil, ann("k")...).StatusCode)
		require.Less(t, p.do("POST", "/flows/order/runs/batch", many, nil, ann("m")...).StatusCode, 300)
		for _, id := range []string{"one", "two"} {
			ref := p.client.Run("order", id)
			for range ref.Watch(enginetest.Context(t), "") { // until it has ended
			}
			require.NoError(t, ref.Purge(enginetest.Context(t)))
		}
		var problem api.Problem
		require.Equal(t, http.StatusGone, p.do("POST", "/flows/order/runs", one, &problem, ann("k")...).StatusCode)
		require.Equal(t, "run_purged", problem.Code)
		var started httpapi.StartedRuns
		reply := p.do("POST", "/flows/order/runs/batch", many, &started, ann("m")...)
		require.Equal(t, "true", reply.Header.Get("Idempotent-Replayed"))
		require.Equal(t, "run_purged", started.Runs[0].Problem.Code)
		require.Nil(t, started.Runs[1].Problem)

		// Under another key it can be started again.
		require.Equal(t, http.StatusCreated, p.do("POST", "/flows/order/runs", one, nil, ann("k2")...).StatusCode)
	})
}
