package contractapi

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// buckets are the upper bounds of the durations of requests, in seconds.
var buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// metrics counts the requests by method, pattern and status. The zero value is ready.
type metrics struct {
	mu     sync.Mutex
	series map[string]*series
}

type series struct {
	count   int64
	seconds float64
	buckets []int64
}

func (m *metrics) record(route *Route, status int, took time.Duration) {
	labels := fmt.Sprintf("method=%q,path=%q,status=%q", route.Method, route.Pattern, strconv.Itoa(status))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.series == nil {
		m.series = map[string]*series{}
	}
	s := m.series[labels]
	if s == nil {
		s = &series{buckets: make([]int64, len(buckets))}
		m.series[labels] = s
	}
	s.count++
	s.seconds += took.Seconds()
	for i, bound := range buckets {
		if took.Seconds() <= bound {
			s.buckets[i]++
		}
	}
}

// WriteMetrics writes the counts of requests in the text format of Prometheus.
func (h *Handler) WriteMetrics(w io.Writer) error {
	m := &h.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	var out strings.Builder
	all := slices.Sorted(maps.Keys(m.series))
	out.WriteString("# HELP ff_http_requests_total Requests to routes of the contract.\n")
	out.WriteString("# TYPE ff_http_requests_total counter\n")
	for _, labels := range all {
		fmt.Fprintf(&out, "ff_http_requests_total{%s} %d\n", labels, m.series[labels].count)
	}
	out.WriteString("# HELP ff_http_request_duration_seconds Durations of requests to routes of the contract.\n")
	out.WriteString("# TYPE ff_http_request_duration_seconds histogram\n")
	for _, labels := range all {
		s := m.series[labels]
		for i, bound := range buckets {
			fmt.Fprintf(&out, "ff_http_request_duration_seconds_bucket{%s,le=\"%g\"} %d\n", labels, bound, s.buckets[i])
		}
		fmt.Fprintf(&out, "ff_http_request_duration_seconds_bucket{%s,le=\"+Inf\"} %d\n", labels, s.count)
		fmt.Fprintf(&out, "ff_http_request_duration_seconds_sum{%s} %g\n", labels, s.seconds)
		fmt.Fprintf(&out, "ff_http_request_duration_seconds_count{%s} %d\n", labels, s.count)
	}
	_, err := io.WriteString(w, out.String())
	return err
}
