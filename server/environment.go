package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Environment contains the settings in the environment variables of other FlowFabric servers, for programs that
// replace one.
type Environment struct {
	// URL is the address of the engine, for runtime.Open: FF_HOST, FF_PORT, FF_TLS and FF_CLUSTER. It is empty if none
	// of them is set.
	URL string
	// Address is FF_LISTEN_ADDR, the address to listen on; empty if it is not set.
	Address string
	// Partitions is FF_FLOW_PARTITIONS, for runtime.OpenConfig; 0 if it is not set.
	Partitions int
	// Lanes is FF_LANES, for runtime.KeeperConfig; empty if it is not set.
	Lanes []string
	// Secret is FF_WAITPOINT_HMAC_SECRET, for runtime.OpenConfig; the zero value if it is not set.
	Secret enginecore.WaitpointSecret
	// AdminToken is FF_API_TOKEN, for Config; empty if it is not set.
	AdminToken string
	// Contract has FF_CORS_ORIGINS, FF_MAX_CONCURRENT_STREAM_OPS and FF_WAITPOINT_HMAC_GRACE_MS.
	Contract ContractConfig
}

// secretKID is the id of the secret of FF_WAITPOINT_HMAC_SECRET.
const secretKID = "k1"

// ReadEnvironment reads the variables FF_HOST, FF_PORT, FF_TLS, FF_CLUSTER, FF_LISTEN_ADDR, FF_FLOW_PARTITIONS,
// FF_LANES, FF_API_TOKEN, FF_CORS_ORIGINS, FF_MAX_CONCURRENT_STREAM_OPS (or FF_MAX_CONCURRENT_TAIL),
// FF_WAITPOINT_HMAC_SECRET and FF_WAITPOINT_HMAC_GRACE_MS by lookup, such as os.LookupEnv. Others have no meaning here.
// The error joins all faults and matches ErrInvalid.
func ReadEnvironment(lookup func(string) (string, bool)) (Environment, error) {
	r := environmentReader{lookup: lookup}
	e := Environment{
		URL: r.engine(), Address: r.text("FF_LISTEN_ADDR", ""), Partitions: r.number("FF_FLOW_PARTITIONS", 1, 1<<16),
		AdminToken: r.text("FF_API_TOKEN", ""), Lanes: r.lanes("FF_LANES"),
	}
	if secret, set := lookup("FF_WAITPOINT_HMAC_SECRET"); set {
		if _, err := hex.DecodeString(secret); err != nil || secret == "" {
			r.fault("FF_WAITPOINT_HMAC_SECRET must be an even number of hex digits") // the value is a secret
		}
		e.Secret = enginecore.WaitpointSecret{KID: secretKID, Hex: secret}
	}
	if origins, set := lookup("FF_CORS_ORIGINS"); set {
		e.Contract.Origins = r.origins(origins)
	}
	const streams, tails = "FF_MAX_CONCURRENT_STREAM_OPS", "FF_MAX_CONCURRENT_TAIL"
	if e.Contract.StreamOps = r.number(streams, 1, 10_000); e.Contract.StreamOps == 0 {
		e.Contract.StreamOps = r.number(tails, 1, 10_000)
	}
	grace := r.number("FF_WAITPOINT_HMAC_GRACE_MS", 0, 1<<52)
	e.Contract.SecretGrace = time.Duration(grace) * time.Millisecond
	return e, errors.Join(r.faults...)
}

type environmentReader struct {
	lookup func(string) (string, bool)
	faults []error
}

func (r *environmentReader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
}

func (r *environmentReader) text(name, absent string) string {
	if value, set := r.lookup(name); set {
		return value
	}
	return absent
}

// number reads a number; 0 if the variable is not set.
func (r *environmentReader) number(name string, least, most int) int {
	value, set := r.lookup(name)
	if !set {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		r.fault("%s must be a number from %d to %d, got: %q", name, least, most, value)
	}
	return n
}

// lanes reads names of lanes, separated by commas.
func (r *environmentReader) lanes(name string) (lanes []string) {
	for text := range strings.SplitSeq(r.text(name, ""), ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if _, err := keyspace.ParseLaneID(text); err != nil {
			r.fault("%s: %w", name, err)
			continue
		}
		lanes = append(lanes, text)
	}
	return lanes
}

func (r *environmentReader) flag(name string) bool {
	value := r.text(name, "")
	return value == "1" || strings.EqualFold(value, "true")
}

// engine returns the URL of the engine; empty if no variable names one.
func (r *environmentReader) engine() string {
	named := false
	for _, name := range []string{"FF_HOST", "FF_PORT", "FF_TLS", "FF_CLUSTER"} {
		_, set := r.lookup(name)
		named = named || set
	}
	if !named {
		return ""
	}
	port := r.text("FF_PORT", "6379")
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 1<<16-1 {
		r.fault("FF_PORT must be a number from 1 to 65535, got: %q", port)
	}
	u := url.URL{Scheme: "valkey", Host: net.JoinHostPort(r.text("FF_HOST", "localhost"), port)}
	if r.flag("FF_TLS") {
		u.Scheme = "valkeys"
	}
	if r.flag("FF_CLUSTER") {
		u.Scheme += "+cluster"
	}
	return u.String()
}

// origins returns the origins that can be used; it is a fault if none can.
func (r *environmentReader) origins(list string) []string {
	var origins []string
	for origin := range strings.SplitSeq(list, ",") {
		origin = strings.TrimSpace(origin)
		if origin == "*" {
			return []string{"*"}
		}
		if checkOrigin(origin) == nil {
			origins = append(origins, origin)
		}
	}
	if len(origins) == 0 {
		r.fault("FF_CORS_ORIGINS has no origin such as https://host, and no *, got: %q", list)
	}
	return origins
}
