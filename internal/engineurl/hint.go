package engineurl

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
)

// withoutScheme is the error of a text without a scheme, with the URLs that it may stand for.
func withoutScheme(raw string) error {
	switch {
	case strings.Contains(raw, "@"): // it may hold a password
		return fmt.Errorf("%w: it has no scheme: a server is valkey://user:password@host:6379", errURL)
	case filepath.IsLocal(raw) && !strings.ContainsAny(raw, `/\`) && !strings.HasPrefix(raw, "."):
		return fmt.Errorf("%w: %q has no scheme: the server of that name is valkey://%s:6379, the directory embedded:%s", errURL, raw, raw, raw)
	}
	return fmt.Errorf("%w: %q has no scheme: a server is valkey://host:6379, a directory is embedded:%s", errURL, raw,
		raw)
}

// Explain adds to the error of a connection what may be wrong with the URL.
func (t Target) Explain(err error) error {
	if t.Embedded || err == nil {
		return err
	}
	secure := t.Option.TLSConfig != nil
	hint := ""
	switch header := (tls.RecordHeaderError{}); {
	case strings.Contains(err.Error(), "DB index is out of range"):
		hint = fmt.Sprintf("the server has no database %d: its setting \"databases\" is their number, which begins at 0", t.Option.SelectDB)
	case t.Option.ForceSingleClient && ofCluster(err.Error()):
		hint = "the server is a node of a cluster, of which the scheme is redis+cluster or valkey+cluster"
	case !errors.Is(err, enginecore.ErrNotReachable):
	case secure && (errors.Is(err, transport.ErrNoAnswer) || errors.As(err, &header)):
		hint = "the port may be one without TLS, of which the scheme is redis or valkey"
	case !secure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		hint = "it took the connection and closed it unanswered: the port may be one with TLS, of which the scheme is rediss or valkeys"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}

// ofCluster reports whether a text has an error that only nodes of clusters give.
func ofCluster(text string) bool {
	return strings.Contains(text, "MOVED ") || strings.Contains(text, "CLUSTERDOWN ")
}

// serverMeant returns the URL that somebody meant who wrote an address, as localhost:6379 or valkey:6379/2, instead of
// a URL. Passwords are left out.
func serverMeant(raw string) (url string, ok bool) {
	if strings.Contains(raw, "://") {
		return "", false
	}
	scheme, rest := "valkey", strings.TrimPrefix(raw, "//")
	for _, name := range []string{"redis", "rediss", "valkey", "valkeys"} {
		if after, found := strings.CutPrefix(rest, name+":"); found && areAddresses(addressesOf(after)) {
			scheme, rest = name, after // such as redis:localhost:6379
		}
	}
	user := ""
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, rest = "user:password@", rest[at+1:]
	}
	addresses := addressesOf(rest)
	if !areAddresses(addresses) {
		return "", false
	}
	if len(addresses) > 1 {
		scheme += "+cluster"
	}
	return scheme + "://" + user + rest, true
}

// addressesOf are the parts of a text where a URL has its hosts.
func addressesOf(text string) []string {
	text = text[strings.LastIndexByte(text, '@')+1:]
	if end := strings.IndexAny(text, "/?#"); end >= 0 {
		text = text[:end]
	}
	return strings.Split(text, ",")
}

func areAddresses(list []string) bool {
	for _, address := range list {
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || strings.ContainsAny(host, " \t\\") {
			return false
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	return true
}
