package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/server/internal/contractapi"
	"github.com/flowfabric/flowfabric-go/server/internal/inbound"
	"github.com/flowfabric/flowfabric-go/server/internal/route"
)

// ContractConfig configures the routes under /v1, which other FlowFabric servers have, too. The zero value suits most
// servers.
type ContractConfig struct {
	// Origins are the origins whose pages may call the routes, such as "https://console.example.com"; "*" allows all,
	// which needs a login, since otherwise every page in a browser of this machine could do everything. Defaults to
	// none.
	Origins []string
	// StreamOps is how many reads and tails of attempt streams run at a time, 1 to 10,000; one principal has half of
	// them. Defaults to 64.
	StreamOps int
	// SecretGrace is how long the tokens of waitpoints are valid after another secret has replaced theirs. Defaults to
	// 24 hours.
	SecretGrace time.Duration
	// Off leaves the routes out. Defaults to false.
	Off bool
}

func (c *ContractConfig) check(secured bool, fault func(string, ...any)) {
	if c.StreamOps < 0 || c.StreamOps > 10_000 {
		fault("Contract.StreamOps must be 1 to 10,000, got: %d", c.StreamOps)
	}
	if c.SecretGrace < 0 {
		fault("Contract.SecretGrace must not be negative, got: %s", c.SecretGrace)
	}
	if !secured && slices.Contains(c.Origins, "*") {
		fault("Contract.Origins * (FF_CORS_ORIGINS) lets the pages of all sites call the server, " +
			"which needs a login: configure one, or name the origins")
	}
	for i, origin := range c.Origins {
		if err := checkOrigin(origin); origin != "*" && err != nil {
			fault("Contract.Origins[%d]: %w; or *", i, err)
		}
	}
}

func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("must be such as https://host:8080, got: %q", origin)
	}
	return nil
}

// contract returns the routes under /v1.
func (s *Server) contract(stopping context.Context) (*contractapi.Handler, error) {
	c := &s.config.Contract
	config := contractapi.Config{
		Engine: s.config.Engine, Logger: s.config.Logger, ReadOnly: s.config.ReadOnly, StreamOps: c.StreamOps,
		SecretGrace: c.SecretGrace, Stopping: stopping,
	}
	if s.config.MeterProvider != nil {
		config.Meter = s.config.MeterProvider.Meter(meterName)
	}
	return contractapi.New(config)
}

// mountContract adds the routes under /v1 to the mux, with the logins in front.
func (s *Server) mountContract(mux *http.ServeMux, routes *contractapi.Handler) {
	guarded := contractapi.Problems(s.identify(s.limitRate(plainOnly(routes))))
	mux.Handle(contractapi.Prefix+"/", contractapi.CORS(slices.Clone(s.config.Contract.Origins), guarded))
}

// plainOnly refuses bodies that are encoded. The routes themselves check the type.
func plainOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := inbound.Encoded(r); text != "" {
			route.WriteProblem(w, route.NewProblem(http.StatusUnsupportedMediaType, "media_type", text, false))
			return
		}
		next.ServeHTTP(w, r)
	})
}
