package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/health"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(testserver.Supervisor))
}

func ask(t *testing.T, h http.Handler, method string) (int, health.Report) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, "/readyz", nil))
	var report health.Report
	if recorder.Code != http.StatusMethodNotAllowed {
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &report))
	}
	return recorder.Code, report
}

func TestOneFailureMakesAllUnready(t *testing.T) {
	t.Parallel()
	h := health.Handler(map[string]health.Checker{
		"good": health.CheckFunc(func(context.Context) error { return nil }),
		"bad":  health.CheckFunc(func(context.Context) error { return errors.New("no disk") }),
		"gone": health.CheckFunc(func(context.Context) error { goruntime.Goexit(); return nil }),
	})
	status, report := ask(t, h, http.MethodGet)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, health.Report{Checks: map[string]string{"good": "ok", "bad": "no disk", "gone": "the check did not return"}}, report)
	status, _ = ask(t, h, http.MethodPost)
	require.Equal(t, http.StatusMethodNotAllowed, status)
}

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, err := runtime.Open(ctx, "embedded:", runtime.OpenConfig{})
	if err != nil {
		panic(err)
	}
	defer engine.Close()
	worker, err := runtime.NewWorker(engine, runtime.WorkerConfig{})
	if err != nil {
		panic(err)
	}
	if err := worker.Register(activity.New("greet", func(context.Context, string) (string, error) { return "hello", nil })); err != nil {
		panic(err)
	}
	ready := health.Handler(map[string]health.Checker{"engine": engine, "worker": worker})

	recorder := httptest.NewRecorder()
	ready.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(recorder.Code) // the worker does not run yet
	// Output: 503
}
