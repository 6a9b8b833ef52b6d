package servertest

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

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

type checkFunc func(ctx context.Context) error

func (f checkFunc) Check(ctx context.Context) error { return f(ctx) }

func TestReadyHandler_OneFailureMakesTheProgramUnready(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	good := checkFunc(func(context.Context) error { return nil })
	ask := func(h http.Handler, method string) (int, string) {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, "/readyz", nil))
		return recorder.Code, recorder.Body.String()
	}
	status, body := ask(b.Engine.ReadyHandler(good), http.MethodGet)
	require.JSONEq(t, `{"ready":true,"checks":{"engine":"ok","servertest.checkFunc":"ok"}}`, body)
	require.Equal(t, http.StatusOK, status)

	h := b.Engine.ReadyHandler(good, checkFunc(func(context.Context) error { return errors.New("no disk") }),
		checkFunc(func(context.Context) error { goruntime.Goexit(); return nil }))
	status, body = ask(h, http.MethodGet)
	require.Equal(t, http.StatusServiceUnavailable, status)
	var report struct{ Checks map[string]string }
	require.NoError(t, json.Unmarshal([]byte(body), &report))
	require.Equal(t, map[string]string{
		"engine": "ok", "servertest.checkFunc": "ok", "servertest.checkFunc 2": "no disk",
		"servertest.checkFunc 3": "the check did not return",
	}, report.Checks)
	status, _ = ask(h, http.MethodPost)
	require.Equal(t, http.StatusMethodNotAllowed, status)
}

func ExampleEngine_ReadyHandler() {
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
	ready := engine.ReadyHandler(worker) // http.Handle("/readyz", ready)

	recorder := httptest.NewRecorder()
	ready.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(recorder.Code) // the worker does not run yet
	// Output: 503
}
