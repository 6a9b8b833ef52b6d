package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
)

const (
	// readyTimeout bounds the checks of one probe.
	readyTimeout = 5 * time.Second
	// keepersFresh is how long the state of keepers is cached, since anybody may request it.
	keepersFresh = 10 * time.Second
)

// readiness is the reply to a probe.
type readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// Keepers is "ok", or the code of a finding of Engine.Inspect: keeper.none or keeper.lag.
	Keepers string `json:"keepers,omitempty"`
}

// ready answers whether the engine does and fits, and how the keepers do. Late keepers do not make a server unready: to
// send no requests to it would not help them.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	answer := readiness{Ready: true}
	if err := s.config.Engine.Check(ctx); err != nil {
		s.config.Logger.WarnContext(ctx, "the server is not ready", "event", "server.not_ready", "error", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		answer = readiness{Reason: "the engine does not answer or does not fit; the log has the cause"}
	} else {
		answer.Keepers = s.keepers.read(ctx, s.config.Engine.Inspect)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// keeperState caches the state of the keepers of the engine.
type keeperState struct {
	mu    sync.Mutex
	state string
	until time.Time
}

// read returns the state, which it caches for keepersFresh.
func (k *keeperState) read(ctx context.Context, inspect func(context.Context) (fabrictype.Inspection, error)) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Now().Before(k.until) {
		return k.state
	}
	report, err := inspect(ctx)
	if err != nil {
		return "unknown"
	}
	k.state, k.until = "ok", time.Now().Add(keepersFresh)
	for _, finding := range report.Findings {
		if finding.Code == findingcode.KeeperNone || finding.Code == findingcode.KeeperLag {
			k.state = finding.Code
		}
	}
	return k.state
}
