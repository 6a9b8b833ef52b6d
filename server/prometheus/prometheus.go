// Package prometheus lets Prometheus scrape the metrics of engines, workers, keepers and servers:
//
//	exporter, err := prometheus.New()
//	engine, err := runtime.Open(ctx, url, runtime.OpenConfig{MeterProvider: exporter.MeterProvider()})
//	srv, err := server.New(server.Config{
//		Engine: engine, MeterProvider: exporter.MeterProvider(), Metrics: exporter.Handler(),
//	})
package prometheus

import (
	"context"
	"net/http"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// Exporter keeps measurements for Prometheus. It is safe for concurrent use.
type Exporter struct {
	provider *sdk.MeterProvider
	registry *client.Registry
}

// New returns an exporter. It has the metrics of the Go runtime and of the process, too.
func New() (*Exporter, error) {
	registry := client.NewRegistry()
	for _, c := range []client.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	return &Exporter{sdk.NewMeterProvider(sdk.WithReader(reader)), registry}, nil
}

// MeterProvider returns the provider for runtime.OpenConfig and server.Config.
func (e *Exporter) MeterProvider() metric.MeterProvider { return e.provider }

// Handler returns the handler that Prometheus scrapes.
func (e *Exporter) Handler() http.Handler {
	return promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Close ends the measuring.
func (e *Exporter) Close(ctx context.Context) error { return e.provider.Shutdown(ctx) }
