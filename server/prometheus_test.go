package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
	"github.com/flowfabric/flowfabric-go/server/prometheus"
)

// newMeasuredPlace is a place whose engine, worker, keeper and server are measured.
func newMeasuredPlace(t *testing.T, configure func(*server.Config)) *place {
	t.Helper()
	exporter, err := prometheus.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, exporter.Close(context.Background())) })
	b := enginetest.New(t, testserver.Embedded, runtime.OpenConfig{MeterProvider: exporter.MeterProvider()})
	return newPlaceOf(t, b, func(c *server.Config) {
		c.MeterProvider, c.Metrics = exporter.MeterProvider(), exporter.Handler()
		if configure != nil {
			configure(c)
		}
	})
}

func (p *place) metrics(header ...string) (status int, text string) {
	p.t.Helper()
	request, err := http.NewRequest("GET", p.url+"/metrics", nil)
	require.NoError(p.t, err)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	require.NoError(p.t, err)
	return reply.StatusCode, string(body)
}

// Metrics have names of flows and lanes: they are for those who may see all of them.
func TestMetricsNeedTheRightToView(t *testing.T) {
	t.Parallel()
	p := newMeasuredPlace(t, withProxy)
	for user, want := range map[string]int{
		"all": 200, "not operate": 200, "not view": 403, "bound": 403, "nobody": 401, "": 401,
	} {
		status, text := p.metrics(userHeader, user)
		require.Equal(t, want, status, user)
		require.Equal(t, want == http.StatusOK, strings.Contains(text, "flowfabric_api_request_duration") ||
			strings.Contains(text, "go_goroutines"), user)
	}
	status, _ := newPlace(t, func(c *server.Config) { c.Contract.Off = true }).metrics()
	require.Equal(t, http.StatusNotFound, status)
}

// A server whose program has no keeper measures the lanes itself.
func TestServerMeasuresLanes(t *testing.T) {
	t.Parallel()
	exporter, err := prometheus.New()
	require.NoError(t, err)
	defer exporter.Close(context.Background())
	p := newPlace(t, func(c *server.Config) {
		c.MeterProvider, c.Metrics, c.ReportLanes = exporter.MeterProvider(), exporter.Handler(), true
	})
	p.start("approval", "one", order{"book", 1})
	enginetest.Eventually(t, func() string {
		_, text := p.metrics()
		if !strings.Contains(text, `flowfabric_lane_depth{flowfabric_lane="default",flowfabric_state="suspended"} 1`) {
			return text
		}
		return ""
	})
}

// monitor is a Prometheus that scrapes a place.
type monitor struct {
	t   *testing.T
	url string
}

// newMonitor starts a Prometheus with the rules of the repository.
func newMonitor(t *testing.T, p *place, rules string) *monitor {
	t.Helper()
	program, ok := testserver.Tool("prometheus")
	require.True(t, ok, "prometheus is missing: make servers fetches it")
	dir := t.TempDir()
	target := strings.TrimPrefix(p.url, "http://")
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: flowfabric, static_configs: [{targets: [%q]}]}]\n", rules, target)
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	port := testserver.Port(t)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	command := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("prometheus: %s", text)
		}
	})
	return &monitor{t, "http://" + address}
}

// query evaluates a query with Prometheus, and returns the number of series in the result.
func (m *monitor) query(query string) (series int, err error) {
	reply, err := http.Get(m.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(reply.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return len(answer.Data.Result), nil
}

// dashboardQueries are the queries of the Grafana dashboard, with its variables replaced as Grafana does.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana/flowfabric.json")
	require.NoError(t, err)
	var dashboard struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	var queries []string
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Title)
		for _, target := range panel.Targets {
			query := strings.NewReplacer("$__rate_interval", "1m", "$job", "flowfabric", "$lane", ".*").Replace(target.Expr)
			require.NotContains(t, query, "$")
			queries = append(queries, query)
		}
	}
	require.NotEmpty(t, queries)
	return queries
}

// A Prometheus scrapes a server with runs, loads the alert rules, and evaluates every query of the dashboard and the rules.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	rules, err := filepath.Abs("../deploy/prometheus/rules.yml")
	require.NoError(t, err)
	p := newMeasuredPlace(t, nil)
	m := newMonitor(t, p, rules)
	p.start("approval", "waiting", order{"book", 1})
	require.Equal(t, http.StatusOK, p.stream(t.Context(), "/runs/approval/waiting/events").StatusCode)
	n := 0
	work := func() {
		n++
		// The server starts runs by their own call, which also leases their first nodes. A run that begins later is claimed.
		start := map[string]any{"id": fmt.Sprint(n), "input": order{"book", n}, "delay": "50ms"}
		reply := p.do("POST", "/flows/order/runs", start, nil)
		require.Equal(t, http.StatusCreated, reply.StatusCode)
		p.do("GET", "/runs/order/none", nil, nil)
		var result api.Result
		p.do("GET", fmt.Sprintf("/runs/order/%d/result?wait=30s", n), nil, &result)
		require.Equal(t, "succeeded", result.State)
	}
	enginetest.Eventually(t, func() string {
		if series, err := m.query(`up{job="flowfabric"} == 1`); err != nil || series != 1 {
			return fmt.Sprint("the server is not scraped: ", err)
		}
		return ""
	})
	for _, query := range dashboardQueries(t) {
		enginetest.Eventually(t, func() string {
			work() // a rate needs two scrapes with something between them
			series, err := m.query(query)
			require.NoError(t, err, query)
			if series == 0 {
				return "no series: " + query
			}
			return ""
		})
	}
	reply, err := http.Get(m.url + "/api/v1/rules")
	require.NoError(t, err)
	defer reply.Body.Close()
	var loaded struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Query, Health, LastError, State string }
			}
		}
	}
	require.NoError(t, json.NewDecoder(reply.Body).Decode(&loaded))
	require.NotEmpty(t, loaded.Data.Groups)
	text, err := os.ReadFile(rules)
	require.NoError(t, err)
	_, exported := p.metrics()
	count := 0
	for _, group := range loaded.Data.Groups {
		for _, rule := range group.Rules {
			count++
			_, err := m.query(rule.Query)
			require.NoError(t, err, rule.Name)
			require.Empty(t, rule.LastError, rule.Name)
			require.NotEqual(t, "firing", rule.State, "%s fires though all is well", rule.Name)
			// A rule about a metric that no component exports never fires.
			for _, name := range regexp.MustCompile(`flowfabric_\w+`).FindAllString(rule.Query, -1) {
				if _, isLabel := map[string]bool{"flowfabric_lane": true, "flowfabric_task": true, "flowfabric_activity": true,
					"flowfabric_state": true, "flowfabric_outcome": true, "flowfabric_worker": true}[name]; !isLabel && !rare[name] {
					require.Contains(t, exported, "\n"+name, rule.Name)
				}
			}
		}
	}
	require.Equal(t, strings.Count(string(text), "- alert:"), count)
	if tool, ok := testserver.Tool("promtool"); ok {
		output, err := exec.CommandContext(t.Context(), tool, "check", "rules", rules).CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
}

// rare are metrics that are there only after something went wrong.
var rare = map[string]bool{"flowfabric_keeper_errors_total": true, "flowfabric_worker_overstays_total": true}
