package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/internal/contract"
)

// quietPlace is a place without workers and keepers: only requests change its engine.
func quietPlace(t testing.TB, kind testserver.Kind) (*enginetest.Bench, http.Handler, *logged) {
	t.Helper()
	b := enginetest.New(t, kind)
	ctx := enginetest.Context(t)
	order, approval := orders(t), approvals(t)
	require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: order}, runtime.Publication{Flow: approval}))
	log := &logged{}
	config := server.Config{Engine: b.Engine, Logger: log.logger(), RequestsPerSecond: -1}
	withProxy(&config)
	s, err := server.New(config)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	for _, flow := range []string{"order", "approval"} {
		_, err := b.Client.Flow(flow).Start(ctx, json.RawMessage(`{"item":"book","count":1}`), runtime.WithID("there"))
		require.NoError(t, err)
	}
	return b, s.Handler(), log
}

// contents are the keys of an engine with their values, without the audit log, which has failed actions, too.
func contents(t testing.TB, b *enginetest.Bench) string {
	t.Helper()
	ctx := enginetest.Context(t)
	core := engine.ConnOf(b.Engine.Internal())
	client, directory := b.Operator(), keyspace.Partition{Family: keyspace.FlowFamily}
	keys, err := invariant.Keys(ctx, client, b.Prefix)
	require.NoError(t, err)
	slices.Sort(keys)
	var out strings.Builder
	for _, key := range keys {
		if key == core.Keys().FfxAuditLog(directory, "default") {
			continue
		}
		kind, err := client.Do(ctx, client.B().Type().Key(key).Build()).ToString()
		require.NoError(t, err)
		read, known := map[string]rueidis.Completed{
			"string": client.B().Get().Key(key).Build(), "hash": client.B().Hgetall().Key(key).Build(),
			"set": client.B().Smembers().Key(key).Build(), "list": client.B().Lrange().Key(key).Start(0).Stop(-1).Build(),
			"zset":   client.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build(),
			"stream": client.B().Xrange().Key(key).Start("-").End("+").Build(),
		}[kind]
		if !known {
			continue // it has expired in the meantime
		}
		value, err := client.Do(ctx, read).ToMessage()
		if rueidis.IsRedisNil(err) {
			continue
		}
		require.NoError(t, err)
		fmt.Fprintf(&out, "%s %s %s\n", key, kind, value.String())
	}
	return out.String()
}

// attempt sends a request that may be wrong in any way. It fails the test on a server error, and on a refused request
// that has changed something. It returns the reply, and the contents afterwards.
func attempt(t testing.TB, b *enginetest.Bench, h http.Handler, r *http.Request, before string) (*httptest.ResponseRecorder, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // of those that wait
	defer cancel()
	reply := httptest.NewRecorder()
	h.ServeHTTP(reply, r.WithContext(ctx))
	describe := fmt.Sprintf("%s %q: %d %.300s", r.Method, r.URL.String(), reply.Code, reply.Body)
	waited := reply.Code == http.StatusGatewayTimeout || reply.Code == http.StatusServiceUnavailable ||
		strings.Contains(reply.Body.String(), `"kind":"timeout"`) // in the form of the contract
	if reply.Code >= 500 && (!waited || ctx.Err() == nil) {
		t.Errorf("a server error: %s", describe)
	}
	if reply.Code >= 400 && !strings.HasPrefix(reply.Header().Get("Content-Type"), "application/problem+json") &&
		strings.HasPrefix(r.URL.Path, httpapi.Prefix) {
		t.Errorf("an error that is not a problem document: %s", describe)
	}
	if !utf8.Valid(reply.Body.Bytes()) {
		t.Errorf("a reply that is not UTF-8: %s", describe)
	}
	after := contents(t, b)
	if reply.Code >= 400 && reply.Code < 500 && before != after {
		t.Errorf("a refused request has changed something: %s", describe)
	}
	return reply, after
}

// requests makes requests that are wrong in some way.
type requests struct{ *rand.Rand }

func pick[T any](r requests, list ...T) T { return list[r.IntN(len(list))] }

func (r requests) bytes(most int) []byte {
	b := make([]byte, r.IntN(most))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// text is a name: of something that is there, of nothing, or of no good form.
func (r requests) text() string {
	return pick(r, "order", "approval", "there", "pack", "approve", "default", "x", "a/b", ".", "..", "", " ", "\x00", "\xff\xfe",
		"\u202e\u0000", "💥", "%2F", "*", "{}", "-1", "1e999", strings.Repeat("n", 300), string(r.bytes(20)),
		"2026-01-01T00:00:00Z", "-5s", "9999999h", "18446744073709551616", "0-0", "there;", "<script>", "request-")
}

// value is a value of JSON, of the kind that belongs to the type more often than not.
func (r requests) value(t reflect.Type, depth int) any {
	if r.IntN(4) == 0 || depth > 4 {
		return pick[any](r, nil, true, -1, 1e300, "text", []any{}, map[string]any{}, 3.5, r.text(), []any{nil, "x"},
			map[string]any{"a": []any{1}}, json.RawMessage("18446744073709551616"), json.RawMessage(`"\ud800"`))
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return pick[any](r, map[string]any{"item": "book", "count": 1}, map[string]any{"yes": true}, "text", 1)
	}
	if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[fabrictype.Duration]() {
		return pick[any](r, r.text(), "2026-01-01T00:00:00Z", "1h", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
	}
	switch t.Kind() {
	case reflect.Struct:
		object := map[string]any{}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && !f.Anonymous && name != "" && r.IntN(3) > 0 {
				object[name] = r.value(f.Type, depth+1)
			}
		}
		return object
	case reflect.Map:
		return map[string]any{r.text(): r.value(t.Elem(), depth+1)}
	case reflect.Slice:
		return []any{r.value(t.Elem(), depth+1)}
	case reflect.Pointer:
		return r.value(t.Elem(), depth+1)
	case reflect.Bool:
		return r.IntN(2) == 0
	case reflect.Int, reflect.Int64:
		return pick(r, 0, 1, -1, 5, 1<<31, 1<<53+1)
	default:
		return r.text()
	}
}

// body is the body of a request for the operation.
func (r requests) body(op httpapi.Operation) []byte {
	switch r.IntN(8) {
	case 0:
		return r.bytes(200)
	case 1:
		return []byte(strings.Repeat("[", 1+r.IntN(100_000)))
	case 2:
		return bytes.Repeat([]byte("x"), 3<<20)
	case 3:
		return []byte(`{"reason":"` + "\xff\xc0" + `","id":"` + "\xff" + `","input":"` + "\xff" + `"}`)
	}
	field, found := op.Input.FieldByName("Body")
	if !found {
		return nil
	}
	text, err := json.Marshal(r.value(field.Type, 0))
	if err != nil {
		return []byte("{")
	}
	if r.IntN(10) == 0 {
		text = append(text, r.bytes(10)...)
	}
	return text
}

// request is a request for the operation, or for something like it. The run is the one that a path names.
func (r requests) request(op httpapi.Operation, fill func() string) *http.Request {
	parts := strings.Split(op.Path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = url.PathEscape(fill())
		}
	}
	target := httpapi.Prefix + strings.Join(parts, "/")
	if r.IntN(3) == 0 {
		target += "?" + url.QueryEscape(pick(r, "limit", "cursor", "after", "wait", "values", "state", "key", "flow", "by", "tag.a", r.text())) +
			"=" + url.QueryEscape(r.text())
	}
	method := op.Method
	if r.IntN(20) == 0 {
		method = pick(r, "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "BREW")
	}
	body := r.body(op)
	if method == http.MethodGet && r.IntN(10) > 0 {
		body = nil
	}
	request := httptest.NewRequest(method, "http://x/", bytes.NewReader(body))
	if u, err := url.Parse("http://x" + target); err == nil {
		request.URL = u
	}
	request.RequestURI, request.RemoteAddr = target, "127.0.0.1:1"
	request.Header.Set("Content-Type", pick(r, "application/json", "application/json", "application/json", "text/plain", "", r.text()))
	for _, name := range []string{"Idempotency-Key", "If-Match", "Last-Event-ID", "Accept"} {
		if r.IntN(6) == 0 {
			request.Header.Set(name, r.text())
		}
	}
	return request
}

// round sends count requests for random operations, with all rights, fewer, or none.
func (r requests) round(t testing.TB, b *enginetest.Bench, h http.Handler, count int) {
	operations := httpapi.Operations()
	before := contents(t, b)
	statuses := map[int]int{}
	for range count {
		op := pick(r, operations...)
		request := r.request(op, r.text)
		request.Header.Set(userHeader, pick(r, "all", "all", "all", "bound", "not view", "not operate", "nobody", ""))
		var reply *httptest.ResponseRecorder
		reply, before = attempt(t, b, h, request, before)
		statuses[reply.Code]++
		if t.Failed() {
			return
		}
	}
	t.Logf("statuses: %v", statuses)
}

// The server answers every request with a result or a problem, never with a server error, and a refused request has
// changed nothing.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		count := 400
		if kind != testserver.Embedded {
			count = 60
		}
		for seed := range randseed.Trials(t, 1) {
			b, h, log := quietPlace(t, kind)
			requests{rand.New(rand.NewPCG(seed, 1))}.round(t, b, h, count)
			require.NotContains(t, log.String(), "server.panic")
		}
	})
}

// Principals who may not see a flow get the same answer about existing and missing runs.
func TestRandomRequestsLeakNothing(t *testing.T) {
	t.Parallel()
	_, h, _ := quietPlace(t, testserver.Embedded)
	for seed := range randseed.Trials(t, 1) {
		for i := range uint64(600) {
			var answers []string
			op := pick(requests{rand.New(rand.NewPCG(seed, i))}, httpapi.Operations()...)
			if !strings.Contains(op.Path, "{flow}/{run}") {
				continue
			}
			for _, run := range []string{"there", "gone!"} {
				r := requests{rand.New(rand.NewPCG(seed, i))} // the same request except for the run
				names := []string{"approval", run, "approve"}
				request := r.request(op, func() string {
					if len(names) == 0 {
						return "x"
					}
					name := names[0]
					names = names[1:]
					return name
				})
				request.Header.Set(userHeader, "bound")
				request.Header.Del("Idempotency-Key")
				reply := httptest.NewRecorder()
				h.ServeHTTP(reply, request)
				answers = append(answers, fmt.Sprint(reply.Code, strings.ReplaceAll(reply.Body.String(), run, "RUN")))
			}
			require.Equal(t, answers[0], answers[1], op.Name)
		}
	}
}

// FuzzRequests sends requests whose parts the fuzzer makes.
func FuzzRequests(f *testing.F) {
	b, h, _ := quietPlace(f, testserver.Embedded)
	operations := httpapi.Operations()
	for i := range operations {
		f.Add(uint16(i), "order", "limit=1", []byte(`{"reason":"x","input":{}}`), uint8(0))
		f.Add(uint16(i), "\xff/../%", "after=\x00", []byte("{\"\xff\":[[[["), uint8(3))
	}
	users := []string{"all", "bound", "not view", "nobody"}
	f.Fuzz(func(t *testing.T, n uint16, name, query string, body []byte, user uint8) {
		op := operations[int(n)%len(operations)]
		request := httptest.NewRequest(op.Method, "http://x/", bytes.NewReader(body))
		target := httpapi.Prefix + pathOf(op, url.PathEscape(name))
		parsed, err := url.Parse("http://x" + target)
		if err != nil {
			return
		}
		parsed.RawQuery = query
		request.URL, request.RequestURI, request.RemoteAddr = parsed, target, "127.0.0.1:1"
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(userHeader, users[int(user)%len(users)])
		attempt(t, b, h, request, contents(t, b))
	})
}

// FuzzContractRequests sends requests to the routes of the contract. Their paths have ids of existing objects, or
// texts that the fuzzer makes.
func FuzzContractRequests(f *testing.F) {
	b, h, _ := quietPlace(f, testserver.Embedded)
	d, err := b.Client.Run("order", "there").Describe(enginetest.Context(f))
	require.NoError(f, err)
	ids := []string{d.Nodes[0].ExecutionID, d.FlowID}
	routes := contract.Routes()
	for i, route := range routes {
		for which := range uint8(3) {
			f.Add(uint16(i), which, "x", "limit=1&cursor=0&wait_ms=1", []byte(`{"worker_id":"w","lane_id":"default","grant_ttl_ms":1000}`), uint8(0))
		}
		f.Add(uint16(i), uint8(2), "\xff/../%", "after=\x00", []byte("{\""+route.Operation+"\":[[[["), uint8(3))
	}
	users := []string{"all", "bound", "not view", "nobody"}
	f.Fuzz(func(t *testing.T, n uint16, which uint8, name, query string, body []byte, user uint8) {
		route := routes[int(n)%len(routes)]
		if int(which) < len(ids) {
			name = ids[which]
		}
		parts := strings.Split(route.Pattern, "/")
		for i, part := range parts {
			if strings.HasPrefix(part, "{") {
				parts[i] = url.PathEscape(name)
			}
		}
		target := strings.Join(parts, "/")
		parsed, err := url.Parse("http://x" + target)
		if err != nil {
			return
		}
		request := httptest.NewRequest(route.Method, "http://x/", bytes.NewReader(body))
		parsed.RawQuery = query
		request.URL, request.RequestURI, request.RemoteAddr = parsed, target, "127.0.0.1:1"
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set(userHeader, users[int(user)%len(users)])
		attempt(t, b, h, request, contents(t, b))
	})
}
