package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/flowfabric/flowfabric-go/console"
)

// A program that has a server of its own mounts the pages below a prefix.
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.Handle("/flows/", http.StripPrefix("/flows", console.Handler(console.Config{API: "/flowfabric/api/v1"})))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/flows/runs", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
